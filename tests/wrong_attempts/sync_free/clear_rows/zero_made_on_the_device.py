"""Makes the zero on the device, where index_fill_ reads it back from.

fails: test_nobody_waits
says: 2 host syncs
says: an operator reads back
"""

import torch

from debubble.accelerator import current


def check(rows, tables):
    for row in rows:
        if not all(0 <= row < len(table) for table in tables):
            raise ValueError(f"row {row}: there is none in some table")


def clear_rows(rows, tables):
    check(rows, tables)
    device = tables[0].device
    pinned = torch.tensor(rows, dtype=torch.int64, pin_memory=current().pin_memory)
    on_device = pinned.to(device, non_blocking=True)
    zero = torch.zeros((), dtype=torch.int32, device=device)
    for table in tables:
        table.index_fill_(0, on_device, zero)
