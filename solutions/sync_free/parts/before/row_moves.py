"""Moves rows of device tensors, all at once: rows may be swapped, or move in a circle."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...checks.rows import check_moves


def move_rows(tables: Sequence[torch.Tensor], moves: Sequence[tuple[int, int]]) -> None:
    """Each table's row `source` goes to row `target`, for every (source, target) of `moves`.

    In place, and as if all moves took place at the same moment: [(0, 1), (1, 0)] is a swap. Rows
    that are no target stay as they are. The tables are on the device, of the same number of rows,
    and no row is the target of two moves (vLLM #41429).
    """
    if not moves:
        return
    check_moves(moves, len(tables[0]))
    sources, targets = zip(*moves, strict=True)
    device = tables[0].device
    source_rows = torch.tensor(sources, device=device)
    target_rows = torch.tensor(targets, device=device)
    for table in tables:
        table[target_rows] = table[source_rows].clone()
