"""Copies a column of a pinned table: a slice with gaps goes through pageable memory.

fails: test_the_host_does_not_wait
says: 1 pageable upload
"""

import torch

from debubble.accelerator import current


def upload_tokens(token_ids):
    accelerator = current()
    shape = (len(token_ids), 2)
    table = torch.zeros(shape, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    table[:, 0] = torch.tensor(token_ids)
    return table[:, 0].to(accelerator.device, non_blocking=True)
