"""Moves rows of device tensors, all at once: rows may be swapped, or move in a circle."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from solutions.common.h2d import async_tensor_h2d

from ..checks.rows import check_moves


def move_rows(tables: Sequence[torch.Tensor], moves: Sequence[tuple[int, int]]) -> None:
    """Copies each table's row `source` to row `target`, for every (source, target) of `moves`.

    The rows move in place, as if at the same moment: [(0, 1), (1, 0)] is a swap. Rows that are no
    target stay as they are. The tables are on the device and have the same number of rows. No row
    is the target of two moves (vLLM #41429).
    """
    if not moves:
        return
    check_moves(moves, len(tables[0]))
    sources, targets = zip(*moves, strict=True)
    device = tables[0].device
    source_rows, target_rows = async_tensor_h2d([sources, targets], device).unbind()
    for table in tables:
        # Gathered rows have memory of their own: no row is overwritten before it is read.
        table.index_copy_(0, target_rows, table.index_select(0, source_rows))
