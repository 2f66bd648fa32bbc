"""Sends the rows once more for each table.

fails: test_all_tables_share_one_upload
says: made 2 uploads
says: upload them once
"""

import torch

from debubble.accelerator import current


def check(rows, tables):
    for row in rows:
        if not all(0 <= row < len(table) for table in tables):
            raise ValueError(f"row {row}: there is none in some table")


def clear_rows(rows, tables):
    check(rows, tables)
    for table in tables:
        pinned = torch.tensor(rows, dtype=torch.int64, pin_memory=current().pin_memory)
        table.index_fill_(0, pinned.to(table.device, non_blocking=True), 0)
