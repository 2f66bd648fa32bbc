"""Takes four pinned buffers in turn, and waits for a buffer's last copy if it is not done."""

from itertools import cycle

RING = cycle([[torch.empty(0, dtype=torch.int64), current().event()] for _ in "1234"])


def upload_tokens(token_ids):
    accelerator = current()
    slot = next(RING)
    if not slot[1].query():
        slot[1].synchronize()
    if len(slot[0]) < len(token_ids):
        shape = max(64, len(token_ids))
        slot[0] = torch.empty(shape, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    staging = slot[0][: len(token_ids)].copy_(torch.tensor(token_ids, dtype=torch.int64))
    ids = staging.to(accelerator.device, non_blocking=True)
    slot[1].record()
    return ids
