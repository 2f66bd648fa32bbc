"""Graphs by buckets (chapter 04, medium, 25 minutes).

A graph computes as many rows as its capture, so a step is padded to the size of its graph. A row of
padding costs the device as much as a real one. The code below captures one graph, of the largest
step. It is right, but a step of 5 rows computes all 64.

Let `bucket_sizes` choose the sizes: as few as possible, and no step may have more than `percent`
percent of padding in the smallest size that holds it. If several lists are as short, any of them is
right. Let `BucketedGraphs` capture a graph for each of its `sizes`, and run each step in the
smallest graph that holds it. `forward` computes each row from its own row alone, so the rows after
the step's own may have any values. Its first call with a new number of rows may compile, which no
capture may contain.

You need to know how a graph is captured and replayed.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_graph_buckets.py

Stuck?         .venv/bin/debubble hint graph_buckets
Start afresh?  .venv/bin/debubble reset graph_buckets
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from debubble.accelerator import current


# Yours to edit, from here on.
def bucket_sizes(most: int, percent: int) -> list[int]:
    """Returns the fewest sizes, ascending, such that each step of 1 to `most` rows fits into one of
    which at most `percent` percent are padding. The last size is `most`, which is at least 1."""
    return [most]


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
        self.inputs, self.most = inputs, max(sizes)
        forward(inputs[: self.most])  # a first call may compile, which no capture may contain
        self.graph = current().graph()
        with self.graph.capture():
            self.output = forward(inputs[: self.most])

    def run(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns `forward(rows)` in new memory, by one replay of the smallest graph that holds the
        rows. Raises ValueError for no rows, and for more than the largest size."""
        count = len(rows)
        if not 0 < count <= self.most:
            raise ValueError(f"{count} rows: the graphs hold 1 to {self.most}")
        self.inputs[:count].copy_(rows)
        self.graph.replay()
        return self.output[:count].clone()
