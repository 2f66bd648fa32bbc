"""Takes eight pinned buffers in turn, and never asks whether a copy still reads them.

fails: test_uploads_in_a_row_all_arrive
says: overwritten
says: needs an event
"""

from itertools import cycle

RING = cycle(
    [torch.empty(4096, dtype=torch.int64, pin_memory=current().pin_memory) for _ in "12345678"]
)


def upload_tokens(token_ids):
    staging = next(RING)[: len(token_ids)].copy_(torch.tensor(token_ids, dtype=torch.int64))
    return staging.to(current().device, non_blocking=True)
