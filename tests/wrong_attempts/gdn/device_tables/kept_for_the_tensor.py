"""Keeps the tables of a tensor, so that a graph captures nothing.

fails: test_a_replay_makes_the_tables_of_its_step
says: what it kept from an earlier call, is not computed again
"""

from collections import namedtuple

import torch

ChunkTables = namedtuple("ChunkTables", "chunk_indices chunk_offsets")


def most_chunks(num_seqs, num_tokens, chunk_size):
    if num_tokens <= num_seqs:
        return num_tokens
    return num_seqs - 1 + -(-(num_tokens - num_seqs + 1) // chunk_size)


def made(cu_seqlens, num_tokens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    offsets = torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
    num_rows = most_chunks(len(chunks), num_tokens, chunk_size)
    row = torch.arange(num_rows, device=cu_seqlens.device)
    sequence = torch.searchsorted(offsets[1:], row, right=True)
    rows = torch.stack([sequence, row - offsets[sequence]], dim=1)
    rows.masked_fill_((row >= offsets[-1]).unsqueeze(1), -1)
    return ChunkTables(rows.int(), offsets)


_kept = {}


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64):
    key = id(cu_seqlens), chunk_size
    if key not in _kept:
        _kept[key] = cu_seqlens, made(cu_seqlens, num_tokens, chunk_size)
    return _kept[key][1]
