"""Pins memory once, and writes each call's rows to it while the last call's copy may still read it.

fails: test_each_of_many_calls_in_flight_clears_its_own_rows
says: Take fresh pinned memory in each call
"""

import torch

from debubble.accelerator import current

kept = {}


def check(rows, tables):
    for row in rows:
        if not all(0 <= row < len(table) for table in tables):
            raise ValueError(f"row {row}: there is none in some table")


def clear_rows(rows, tables):
    check(rows, tables)
    if len(rows) not in kept:
        pinned = current().pin_memory
        kept[len(rows)] = torch.zeros(len(rows), dtype=torch.int64, pin_memory=pinned)
    kept[len(rows)].copy_(torch.tensor(rows))
    on_device = kept[len(rows)].to(tables[0].device, non_blocking=True)
    for table in tables:
        table.index_fill_(0, on_device, 0)
