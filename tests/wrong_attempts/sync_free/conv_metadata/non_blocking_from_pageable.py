"""Plans once a step on the host, and sends it without blocking, but from pageable memory.

fails: test_the_device_is_not_asked
says: 1 pageable upload
says: Upload from pinned memory
"""

from collections import namedtuple

import torch

CHUNK_TOKENS = 8
ConvMetadata = namedtuple("ConvMetadata", "batch_of_chunk chunk_offset num_seqs num_tokens")


def planned(starts, device):
    lengths = starts.diff().tolist()
    chunks = [
        (sequence, number * CHUNK_TOKENS)
        for sequence, length in enumerate(lengths)
        for number in range(-(-length // CHUNK_TOKENS))
    ]
    both = torch.tensor(chunks, dtype=torch.int32)
    both = both.view(-1, 2).to(device, non_blocking=True)
    return ConvMetadata(both[:, 0], both[:, 1], len(lengths), sum(lengths))


def convolve_layers(layers, tokens, query_start_loc, query_start_loc_cpu):
    metadata = planned(query_start_loc_cpu, tokens.device)
    for layer in layers:
        tokens = layer(tokens, metadata)
    return tokens
