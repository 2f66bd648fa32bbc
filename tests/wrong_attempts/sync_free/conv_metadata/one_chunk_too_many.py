"""Counts the chunks of a sequence as length // 8 + 1.

fails: test_each_layer_is_told_which_chunk_is_whose
fails: test_each_step_has_its_own_sequences
fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: A sequence of 8 tokens is one chunk
"""

from collections import namedtuple

import torch

from debubble.accelerator import current

CHUNK_TOKENS = 8
ConvMetadata = namedtuple("ConvMetadata", "batch_of_chunk chunk_offset num_seqs num_tokens")


def planned(starts, device):
    lengths = starts.diff().tolist()
    chunks = [
        (sequence, number * CHUNK_TOKENS)
        for sequence, length in enumerate(lengths)
        for number in range(length // CHUNK_TOKENS + 1)
    ]
    both = torch.tensor(chunks, dtype=torch.int32, pin_memory=current().pin_memory)
    both = both.view(-1, 2).to(device, non_blocking=True)
    return ConvMetadata(both[:, 0], both[:, 1], len(lengths), sum(lengths))


def convolve_layers(layers, tokens, query_start_loc, query_start_loc_cpu):
    metadata = planned(query_start_loc_cpu, tokens.device)
    for layer in layers:
        tokens = layer(tokens, metadata)
    return tokens
