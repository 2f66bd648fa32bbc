"""non_blocking=True alone: the memory is still pageable.

fails: test_the_host_does_not_wait
says: 1 pageable upload
says: and so does `non_blocking=True` from memory that is not pinned
"""

import torch

from debubble.accelerator import current


def upload_tokens(token_ids):
    return torch.tensor(token_ids).to(current().device, non_blocking=True)
