"""Zeroes rows of tables on the device: those of requests that come or come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed


def clear_rows(rows: Sequence[int] | np.ndarray, tables: Sequence[torch.Tensor]) -> None:
    """Zeroes `rows` of each table, in place (vLLM #41429).

    `rows`: on the host, in any order; one may be named twice. `tables`: [max_reqs, ...] on the
    device, of any dtypes. ValueError for a row that is not in every table.
    """
    plan = plan_cleared_rows(rows, min(len(table) for table in tables))
    plan.apply(upload_packed(plan.arrays, tables[0].device), tables)


def plan_cleared_rows(rows: Sequence[int] | np.ndarray, max_reqs: int) -> ClearedRowsPlan:
    """ValueError for a row that is not in [0, max_reqs)."""
    # int64 is what index_fill_ wants; any other dtype would be converted on the device first.
    rows = np.asarray(rows, dtype=np.int64)
    outside = rows[(rows < 0) | (rows >= max_reqs)]
    if outside.size:
        raise ValueError(f"request {outside[0]}: rows must be in [0, {max_reqs})")
    return ClearedRowsPlan({"rows": rows})


@dataclass(frozen=True)
class ClearedRowsPlan:
    """`rows`: [n] int64."""

    arrays: HostArrays

    def apply(self, on_device: DeviceArrays, tables: Sequence[torch.Tensor]) -> None:
        for table in tables:
            # The zero is an argument of the kernel. In `table[rows] = 0` it is a tensor on the CPU.
            table.index_fill_(0, on_device["rows"], 0)
