"""Searches for the first offset that is not below the row.

fails: test_tables_of_any_lengths
fails: test_chunks_may_be_of_another_size
fails: test_a_replay_makes_the_tables_of_its_step
says: a search goes behind all offsets that are as large as the row's number
"""

from collections import namedtuple

import torch

ChunkTables = namedtuple("ChunkTables", "chunk_indices chunk_offsets")


def most_chunks(num_seqs, num_tokens, chunk_size):
    if num_tokens <= num_seqs:
        return num_tokens
    return num_seqs - 1 + -(-(num_tokens - num_seqs + 1) // chunk_size)


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    offsets = torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
    num_rows = most_chunks(len(chunks), num_tokens, chunk_size)
    row = torch.arange(num_rows, device=cu_seqlens.device)
    sequence = torch.searchsorted(offsets[1:], row)
    rows = torch.stack([sequence, row - offsets[sequence]], dim=1)
    rows.masked_fill_((row >= offsets[-1]).unsqueeze(1), -1)
    return ChunkTables(rows.int(), offsets)
