"""Sends the ids one behind the other, and writes them on the device where a mask says.

fails: test_nobody_waits
says: ids[asked] = flat
says: 1 host sync
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
    num_rows, width = len(sampled), 1 + max(map(len, requested.values()))
    rows = [list(requested.get(row, ())) for row in range(num_rows)]
    numbers = [1 + len(row) for row in rows] + [token for row in rows for token in row]
    packed = torch.tensor(numbers, dtype=torch.int32, pin_memory=current().pin_memory)
    on_device = packed.to(sampled.device, non_blocking=True)
    counts, flat = on_device[:num_rows], on_device[num_rows:]
    ids = torch.zeros(num_rows, width, dtype=torch.int32, device=sampled.device)
    column = torch.arange(width, device=sampled.device)
    asked = (column > 0) & (column < counts[:, None])
    ids[asked] = flat
    ids[:, 0] = sampled
    return ids, counts
