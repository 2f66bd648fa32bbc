"""Makes as many rows as there are tokens, since there cannot be more chunks.

fails: test_tables_of_any_lengths
fails: test_chunks_may_be_of_another_size
fails: test_a_replay_makes_the_tables_of_its_step
says: its shape is
says: most chunks there are when all sequences but one have a single token
"""

from collections import namedtuple

import torch

ChunkTables = namedtuple("ChunkTables", "chunk_indices chunk_offsets")


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    offsets = torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
    row = torch.arange(num_tokens, device=cu_seqlens.device)
    sequence = torch.searchsorted(offsets[1:], row, right=True)
    rows = torch.stack([sequence, row - offsets[sequence]], dim=1)
    rows.masked_fill_((row >= offsets[-1]).unsqueeze(1), -1)
    return ChunkTables(rows.int(), offsets)
