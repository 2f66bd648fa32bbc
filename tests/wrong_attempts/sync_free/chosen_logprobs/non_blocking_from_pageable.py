"""Sends all ids at once and without blocking, but from pageable memory.

fails: test_nobody_waits
says: 1 pageable upload
says: Send from pinned memory
"""

import torch


def check(requested, num_rows, vocab_size):
    for row, token_ids in requested.items():
        if not 0 <= row < num_rows or not all(0 <= token < vocab_size for token in token_ids):
            raise ValueError(f"row {row} of {num_rows} asks for {token_ids} of {vocab_size} tokens")


def filled(packed, requested):
    """Ids from column 1 on, the counts in the last column."""
    rows = packed.numpy()
    rows[:, -1] = 1
    for row, token_ids in requested.items():
        rows[row, 1 : 1 + len(token_ids)] = token_ids
        rows[row, -1] += len(token_ids)
    return packed


def chosen_tokens(requested, sampled, vocab_size):
    if not requested:
        return None
    check(requested, len(sampled), vocab_size)
    shape = (len(sampled), 2 + max(map(len, requested.values())))
    packed = filled(torch.zeros(shape, dtype=torch.int32), requested)
    on_device = packed.to(sampled.device, non_blocking=True)
    ids, counts = on_device[:, :-1], on_device[:, -1]
    ids[:, 0] = sampled
    return ids, counts
