"""Copies the sampled tokens to the host without blocking, and reads them before they are there.

fails: test_the_sampled_tokens_are_those_that_the_device_will_have
may fail: test_each_row_has_its_ids
may fail: test_each_of_many_steps_in_flight_has_its_own_ids
says: once the device has come that far
"""

import torch

from debubble.accelerator import current


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
    pinned = current().pin_memory
    on_host = torch.zeros(len(sampled), dtype=sampled.dtype, pin_memory=pinned)
    on_host.copy_(sampled, non_blocking=True)
    shape = (len(sampled), 2 + max(map(len, requested.values())))
    packed = filled(torch.zeros(shape, dtype=torch.int32, pin_memory=pinned), requested)
    packed[:, 0] = on_host
    on_device = packed.to(sampled.device, non_blocking=True)
    return on_device[:, :-1], on_device[:, -1]
