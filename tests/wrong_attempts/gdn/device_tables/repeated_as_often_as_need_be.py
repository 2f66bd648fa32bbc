"""Repeats each sequence's number as often as it has chunks, which the host has to be told.

fails: test_nobody_waits_and_nothing_is_sent
fails: test_a_replay_makes_the_tables_of_its_step
says: `repeat_interleave` without `output_size`
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
    sequence = torch.repeat_interleave(chunks)
    row = torch.arange(len(sequence), device=cu_seqlens.device)
    rows = torch.stack([sequence, row - offsets[sequence]], dim=1)
    rows = torch.cat([rows, rows.new_full((num_rows - len(rows), 2), -1)])
    return ChunkTables(rows.int(), offsets)
