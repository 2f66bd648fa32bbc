"""Steps of any size by graphs of a few: each is padded, written to where its graph reads it, and
replayed.

An exercise of its own, since the system's steps are a checked batch of six arrays
(steps/step_runner.py, steps/inputs.py): here a step is one tensor, and padding and replay are all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current

from ..steps.limits import size_for

PADDING = (0, 0, -1)
"""A row without a token: its slot is none, so that nothing is written to the cache."""


class CapturedRows(NamedTuple):
    graph: Graph
    rows: torch.Tensor
    """[size, 3] int64 on the device: what each replay reads."""
    output: torch.Tensor
    """[size, …]: where each replay leaves its result."""


class CapturedForward:
    """Runs `forward` on steps of any number of tokens, by a graph for each of `sizes`.

    `forward(rows)` takes [num_tokens, 3] int64 on the device, a row for each token: its id, its
    position, and the slot of the cache that its key is written to, -1 for none. It returns a row
    for each of them.
    """

    def __init__(
        self,
        forward: Callable[[torch.Tensor], torch.Tensor],
        sizes: Iterable[int],
        device: torch.device,
    ) -> None:
        self.forward, self.device = forward, device
        self.sizes = sorted(set(sizes))
        # One tensor for all steps and sizes, which a graph finds at the same place each time.
        self.rows = torch.tensor([PADDING] * self.sizes[-1], dtype=torch.int64, device=device)
        self.captured = {size: self._capture(size) for size in reversed(self.sizes)}

    def step(self, rows: torch.Tensor) -> torch.Tensor:
        """[num_tokens, …] on the device, until the next step overwrites it.

        `rows` [num_tokens, 3] int64 on the host, which the caller may change at once. Runs in the
        smallest graph that holds them, or without a graph if none does.
        """
        num_tokens = len(rows)
        size = size_for(num_tokens, self.sizes)
        if size is None:
            return self.forward(self._pinned(rows, num_tokens).to(self.device, non_blocking=True))
        captured = self.captured[size]
        captured.rows.copy_(self._pinned(rows, size), non_blocking=True)
        captured.graph.replay()
        return captured.output[:num_tokens]

    def _capture(self, size: int) -> CapturedRows:
        rows = self.rows[:size]
        self.forward(rows)
        graph = current().graph()
        with graph.capture():
            output = self.forward(rows)
        return CapturedRows(graph, rows, output)

    def _pinned(self, rows: torch.Tensor, size: int) -> torch.Tensor:
        """[size, 3] on the host, padded. New in each step: a copy may still read the last one."""
        pinned = torch.empty(size, 3, dtype=torch.int64, pin_memory=current().pin_memory)
        pinned[: len(rows)] = rows
        pinned[len(rows) :] = torch.tensor(PADDING, dtype=torch.int64)
        return pinned
