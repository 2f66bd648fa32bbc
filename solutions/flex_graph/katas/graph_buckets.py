"""Graphs by buckets: one graph for each of a few sizes, and a bound on what padding costs.

The engine of `solutions/host_bound` has buckets of its own. This is the exercise: a graph computes
all rows of its capture, so each row of padding is computed like a real one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

import torch

from debubble.accelerator import current


def bucket_sizes(most: int, percent: int) -> list[int]:
    """Returns the fewest sizes, ascending, such that each step of 1 to `most` rows fits into one of
    which at most `percent` percent are padding. The last size is `most`, which is at least 1."""
    sizes = [most]
    while (smallest := fewest_rows_in(sizes[-1], percent)) > 1:
        sizes.append(smallest - 1)
    return sizes[::-1]


def fewest_rows_in(size: int, percent: int) -> int:
    """Returns the fewest rows of a step that may be padded to `size`."""
    return -(-size * (100 - percent) // 100)


class BucketedGraphs:
    """A function of rows on the device, captured once for each of a few numbers of rows."""

    def __init__(
        self,
        forward: Callable[[torch.Tensor], torch.Tensor],
        inputs: torch.Tensor,
        sizes: Iterable[int],
    ) -> None:
        """Captures `forward(inputs[:size])` for each size.

        `sizes` come in any order, perhaps from an iterator. `inputs` [rows of the largest size, D]
        is on the device, and belongs to the graphs. `forward` returns a row for each row, and
        computes each from its own row alone.
        """
        self.inputs = inputs
        self.sizes = sorted(set(sizes))
        self.graphs = [current().graph() for _ in self.sizes]
        self.outputs = []
        for graph, size in zip(self.graphs, self.sizes, strict=True):
            forward(inputs[:size])  # a first call may compile, which no capture may contain
            with graph.capture():
                self.outputs.append(forward(inputs[:size]))

    def run(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns `forward(rows)` in new memory, by one replay of the smallest graph that holds the
        rows. Raises ValueError for no rows, and for more than the largest size."""
        count = len(rows)
        if not 0 < count <= self.sizes[-1]:
            raise ValueError(f"{count} rows: the graphs hold 1 to {self.sizes[-1]}")
        place = bisect_left(self.sizes, count)
        self.inputs[:count].copy_(rows)
        self.graphs[place].replay()
        return self.outputs[place][:count].clone()
