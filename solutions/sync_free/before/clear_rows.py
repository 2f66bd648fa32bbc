"""Zeroes rows of tables on the device: the rows of requests that arrive or resume."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..checks.rows import Integers, check_rows


def clear_rows(rows: Integers, tables: Sequence[torch.Tensor]) -> None:
    """Zeroes `rows` of each table, in place (vLLM #41429).

    `rows` are integers on the host, in any order, possibly repeated. `tables` are [max_reqs, ...]
    on the device, of any dtypes. Raises ValueError for a row that is not in every table.
    """
    check_rows(rows, min(len(table) for table in tables))
    on_device = torch.tensor(rows, dtype=torch.int64, device=tables[0].device)
    for table in tables:
        table[on_device] = 0
