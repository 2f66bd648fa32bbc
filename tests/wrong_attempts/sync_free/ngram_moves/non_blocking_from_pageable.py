"""Sends both lists as one tensor and without blocking, but from pageable memory.

fails: test_nobody_waits
says: 1 pageable upload
says: Pin the row numbers
"""

import torch


def move_rows(tables, moves):
    if not moves:
        return
    numbers = torch.tensor(moves).t().contiguous()
    sources, targets = numbers.to(tables[0].device, non_blocking=True).unbind()
    for table in tables:
        table[targets] = table[sources]
