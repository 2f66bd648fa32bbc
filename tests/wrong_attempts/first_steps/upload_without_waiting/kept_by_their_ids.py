"""Keeps sent tensors by their ids, in case the ids come again.

fails: test_uploads_in_a_row_all_arrive
says: still has 100 tensors after the calls of this test
says: grow until there is no memory left
"""

from functools import cache

from debubble.accelerator import current


@cache
def sent(token_ids: tuple[int, ...]) -> torch.Tensor:
    staging = torch.tensor(token_ids, dtype=torch.int64, pin_memory=current().pin_memory)
    return staging.to(current().device, non_blocking=True)


def upload_tokens(token_ids):
    return sent(tuple(token_ids))
