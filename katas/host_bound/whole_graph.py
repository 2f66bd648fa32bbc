"""A graph break (chapter 07, medium, 20 minutes).

The function below scales scores down if the largest is above a limit. `torch.compile` can't compile
it in one piece. At the `if` it returns to Python, which waits for the largest score: a graph break.

Compute the same without a break: `torch.compile(limit_scores, fullgraph=True)` must accept it, and
the host must not wait. All scores stay exactly as they are if none is above the limit.

You need to know what a graph break is.

Edit this file, then run

    .venv/bin/pytest katas/host_bound/test_whole_graph.py

Stuck?         .venv/bin/debubble hint whole_graph
Start afresh?  .venv/bin/debubble reset whole_graph
"""

from __future__ import annotations

import torch


# Yours to edit, from here on.
def limit_scores(scores: torch.Tensor, limit: float) -> torch.Tensor:
    """Returns `scores` [R, V], all scaled down so that none is larger than `limit`, or a copy if
    none is. `limit` is above 0."""
    largest = scores.amax()
    if largest > limit:
        return scores * (limit / largest)
    return scores.clone()
