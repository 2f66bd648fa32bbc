"""Pins the ids of each row, and still sends them row by row.

fails: test_all_rows_share_one_upload
says: made 15 uploads
says: What costs is that there is an upload, not its bytes
"""

import torch

from debubble.accelerator import current


def check(requested, num_rows, vocab_size):
    for row, token_ids in requested.items():
        if not 0 <= row < num_rows or not all(0 <= token < vocab_size for token in token_ids):
            raise ValueError(f"row {row} of {num_rows} asks for {token_ids} of {vocab_size} tokens")


def chosen_tokens(requested, sampled, vocab_size):
    if not requested:
        return None
    check(requested, len(sampled), vocab_size)
    device, pinned = sampled.device, current().pin_memory
    width = 1 + max(map(len, requested.values()))
    ids = torch.zeros(len(sampled), width, dtype=torch.int32, device=device)
    counts = torch.ones(len(sampled), dtype=torch.int32, device=device)
    ids[:, 0] = sampled
    for row, token_ids in requested.items():
        count = 1 + len(token_ids)
        own = torch.tensor(token_ids, dtype=torch.int32, pin_memory=pinned)
        ids[row, 1:count].copy_(own, non_blocking=True)
        counts[row : row + 1] = count
    return ids, counts
