"""Pins a buffer once, and writes to it again in each call.

fails: test_calls_that_follow_at_once_do_not_disturb_each_other
says: Take fresh pinned memory in each
"""

import torch

from debubble.accelerator import current

PINNED = torch.zeros(2, 1024, dtype=torch.int64, pin_memory=current().pin_memory)


def move_rows(tables, moves):
    if not moves:
        return
    for number, (source, target) in enumerate(moves):
        PINNED[0, number], PINNED[1, number] = source, target
    on_device = PINNED.to(tables[0].device, non_blocking=True)
    sources, targets = on_device[:, : len(moves)].unbind()
    for table in tables:
        table.index_copy_(0, targets, table.index_select(0, sources))
