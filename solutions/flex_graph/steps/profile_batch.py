"""The batch of a warm-up and of a capture: as wide and as long as any that a graph may replay."""

from __future__ import annotations

import numpy as np

from .limits import Limits
from .scheduled import ScheduledBatch


def profile_batch(num_tokens: int, seq_len: int, limits: Limits) -> ScheduledBatch:
    """At most `num_tokens` tokens, spread over as many requests as there can be, each of length
    `seq_len`. It lies in the cache's blocks as they come: read them, and write to none of them.

    ValueError for lengths that no request can have: the tables have no room for them.
    """
    if not 1 <= seq_len <= limits.max_model_len:
        raise ValueError(
            f"profile_seq_lens {seq_len}: requests have 1 to max_model_len tokens, which is "
            f"{limits.max_model_len}"
        )
    num_reqs = min(num_tokens, limits.max_num_seqs)
    shares = np.full(num_reqs, num_tokens // num_reqs)
    shares[: num_tokens % num_reqs] += 1
    query_lens = shares.clip(max=seq_len)
    pages = np.arange(-(-seq_len // limits.block_size)) % (limits.num_gpu_blocks - 1) + 1
    return ScheduledBatch(
        token_ids=np.zeros(query_lens.sum(), np.int32),
        query_lens=query_lens.astype(np.int32),
        seq_lens=np.full(num_reqs, seq_len, np.int32),
        block_table=np.broadcast_to(pages.astype(np.int32), (num_reqs, len(pages))),
    )
