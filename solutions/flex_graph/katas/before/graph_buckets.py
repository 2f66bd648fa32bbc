"""Graphs by buckets as they begin: one graph of the largest size for every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from debubble.accelerator import current


def bucket_sizes(most: int, percent: int) -> list[int]:
    """Returns the one size that holds every step."""
    return [most]


class BucketedGraphs:
    """A function of rows on the device, captured once."""

    def __init__(
        self,
        forward: Callable[[torch.Tensor], torch.Tensor],
        inputs: torch.Tensor,
        sizes: Iterable[int],
    ) -> None:
        """Captures `forward(inputs)` for the largest size."""
        self.inputs, self.most = inputs, max(sizes)
        forward(inputs[: self.most])  # a first call may compile, which no capture may contain
        self.graph = current().graph()
        with self.graph.capture():
            self.output = forward(inputs[: self.most])

    def run(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns `forward(rows)` in new memory, by one replay of the graph."""
        count = len(rows)
        if not 0 < count <= self.most:
            raise ValueError(f"{count} rows: the graphs hold 1 to {self.most}")
        self.inputs[:count].copy_(rows)
        self.graph.replay()
        return self.output[:count].clone()
