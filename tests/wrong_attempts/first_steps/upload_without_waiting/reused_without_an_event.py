"""Keeps one pinned buffer for all calls, and overwrites it while a copy is still waiting.

fails: test_uploads_in_a_row_all_arrive
says: overwritten
says: needs an event
"""

STAGING = torch.empty(4096, dtype=torch.int64, pin_memory=current().pin_memory)


def upload_tokens(token_ids):
    staging = STAGING[: len(token_ids)].copy_(torch.tensor(token_ids))
    return staging.to(current().device, non_blocking=True)
