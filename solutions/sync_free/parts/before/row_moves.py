"""The moves as they were: the row numbers are uploaded twice, and waited for twice."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def move_rows(tables: Sequence[torch.Tensor], moves: Sequence[tuple[int, int]]) -> None:
    """Each table's row `source` goes to row `target`, for every (source, target) of `moves`."""
    if not moves:
        return
    sources, targets = zip(*moves, strict=True)
    device = tables[0].device
    source_rows = torch.tensor(sources, device=device)
    target_rows = torch.tensor(targets, device=device)
    for table in tables:
        table[target_rows] = table[source_rows].clone()
