"""Keeps one tensor on the device for each number of ids, and copies to it.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

TENSORS = {}


def upload_tokens(token_ids):
    staging = torch.tensor(token_ids, dtype=torch.int64, pin_memory=current().pin_memory)
    count = len(token_ids)
    if count not in TENSORS:
        TENSORS[count] = torch.empty(count, dtype=torch.int64, device=current().device)
    return TENSORS[count].copy_(staging, non_blocking=True)
