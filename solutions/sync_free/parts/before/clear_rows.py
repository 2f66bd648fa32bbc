"""Clearing rows as it was: the host waits for the upload of the rows, and of a zero a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


def clear_rows(rows: Sequence[int] | np.ndarray, tables: Sequence[torch.Tensor]) -> None:
    """Zeroes `rows` of each table, in place. A host sync for the rows, and one for each table."""
    for row in rows:
        if not all(0 <= row < len(table) for table in tables):
            raise ValueError(f"request {row} has no row in each of the tables")
    on_device = torch.tensor(rows, dtype=torch.int64, device=tables[0].device)
    for table in tables:
        table[on_device] = 0
