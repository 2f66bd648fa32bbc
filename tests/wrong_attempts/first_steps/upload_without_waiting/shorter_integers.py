"""Halves the bytes to make the copy fast: its callers index with int64.

fails: test_the_ids_arrive
fails: test_uploads_in_a_row_all_arrive
says: its dtype is torch.int32 and not torch.int64
"""

import torch

from debubble.accelerator import current


def upload_tokens(token_ids):
    accelerator = current()
    staging = torch.tensor(token_ids, dtype=torch.int32, pin_memory=accelerator.pin_memory)
    return staging.to(accelerator.device, non_blocking=True)
