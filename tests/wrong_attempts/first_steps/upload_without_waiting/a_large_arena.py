"""Writes each call's ids after the last call's in a large pinned buffer, and restarts at its end.

fails: test_uploads_in_a_row_all_arrive
says: overwritten
says: needs an event
"""

SIZE = 1 << 17
ARENA = torch.empty(SIZE, dtype=torch.int64, pin_memory=current().pin_memory)
FREE = [0]


def upload_tokens(token_ids):
    start = FREE[0] if FREE[0] + len(token_ids) <= SIZE else 0
    FREE[0] = start + len(token_ids)
    staging = ARENA[start : FREE[0]].copy_(torch.tensor(token_ids, dtype=torch.int64))
    return staging.to(current().device, non_blocking=True)
