"""Pins the memory, and then waits for the copy all the same.

fails: test_the_host_does_not_wait
says: 1 host sync, no pageable uploads and 1 pinned upload
says: Pinned memory without `non_blocking=True` waits
"""

import torch

from debubble.accelerator import current


def upload_tokens(token_ids):
    accelerator = current()
    staging = torch.tensor(token_ids, pin_memory=accelerator.pin_memory)
    return staging.to(accelerator.device)
