"""Rows of device tensors that move, all at once: places may be swapped, or passed round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed


def move_rows(tables: Sequence[torch.Tensor], moves: Sequence[tuple[int, int]]) -> None:
    """Each table's row `source` goes to row `target`, for every (source, target) of `moves`.

    In place, and as if all moves took place at the same moment: [(0, 1), (1, 0)] is a swap. Rows
    that are no target stay as they are. The tables are on the device, of the same number of rows,
    and no row is the target of two moves (vLLM #41429).
    """
    if not moves:
        return
    sources, targets = np.array(moves, np.int64).T
    plan = plan_row_moves(sources, targets, num_rows=len(tables[0]))
    plan.apply(upload_packed(plan.arrays, tables[0].device), *tables)


@dataclass(frozen=True, slots=True)
class RowMovesPlan:
    """Which row goes where."""

    arrays: HostArrays

    def apply(self, on_device: DeviceArrays, *tables: torch.Tensor) -> None:
        """Two kernels a table, or none when nothing moves."""
        if not self.arrays["source_rows"].size:
            return
        for table in tables:
            # Gathered rows lie in memory of their own: none is overwritten before it is read.
            gathered = table.index_select(0, on_device["source_rows"])
            table.index_copy_(0, on_device["target_rows"], gathered)


def plan_row_moves(sources: np.ndarray, targets: np.ndarray, num_rows: int) -> RowMovesPlan:
    """`sources`, `targets`: [num_moves] int64.

    ValueError for a row that is not there, and for two moves to one row.
    """
    for rows in (sources, targets):
        outside = (rows < 0) | (rows >= num_rows)
        if outside.any():
            raise ValueError(f"row {rows[outside][0]} in a move: there are {num_rows} rows")
    different, times = np.unique(targets, return_counts=True)
    if (times > 1).any():
        raise ValueError(f"{times.max()} rows move to row {different[times.argmax()]}: one can")
    return RowMovesPlan({"source_rows": sources, "target_rows": targets})
