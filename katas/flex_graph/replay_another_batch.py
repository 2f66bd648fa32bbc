"""Replay another batch (chapter 04).

The class below captures `forward` at a few sizes, to run steps of any number of tokens by one
launch each. It computes, and never what it was asked for: `self.rows` becomes another tensor in
each step, while the graph goes on reading the one that it was captured with. That one is full of
padding.

Write each step's rows to where its graph reads them, by one upload from pinned memory that nobody
waits for. A step may have fewer tokens than its graph has rows: the others have to be padding, each
time. A step that no graph holds runs `forward` as it is.

Edit this file, then run

    pytest katas/flex_graph/test_replay_another_batch.py

Stuck?         debubble hint replay_another_batch
Start afresh?  debubble reset replay_another_batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current

PADDING = (0, 0, -1)


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
        self.captured = {size: self._capture(size) for size in reversed(self.sizes)}

    def step(self, rows: torch.Tensor) -> torch.Tensor:
        """[num_tokens, …] on the device, until the next step overwrites it.

        `rows` [num_tokens, 3] int64 on the host, which the caller may change at once. Runs in the
        smallest graph that holds them, or without a graph if none does.
        """
        num_tokens = len(rows)
        self.rows = rows.to(self.device)
        for size in self.sizes:
            if size >= num_tokens:
                self.captured[size].graph.replay()
                return self.captured[size].output[:num_tokens]
        return self.forward(self.rows)

    def _capture(self, size: int) -> CapturedRows:
        self.rows = torch.tensor([PADDING] * size, dtype=torch.int64, device=self.device)
        self.forward(self.rows)
        graph = current().graph()
        with graph.capture():
            output = self.forward(self.rows)
        return CapturedRows(graph, self.rows, output)
