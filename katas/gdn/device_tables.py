"""Tables that the host never sees (chapter 03, hard, 40 minutes).

When a step begins before the last one has ended, the host may not know the lengths yet: they are on
the device, and only that there are `num_tokens` in all is certain. The function below makes both
tables of such lengths, and works. But it reads them first, so it waits, and no graph can capture
it.

Make both tables on the device. The host has to say how many rows the table has, without knowing:
take the most that there can be, `most_chunks`, and fill those that are no chunk with -1. PyTorch's
own operators are enough; our solution is the Triton kernel of the step, whose rows search as yours
will.

You need to know Triton, a binary search, and the tables of `chunk_indices` and `chunk_offsets`.

Edit this file, then run

    pytest katas/gdn/test_device_tables.py

Stuck?         debubble hint device_tables
Start afresh?  debubble reset device_tables
"""

from __future__ import annotations

from typing import NamedTuple

import torch

FLA_CHUNK_SIZE = 64


# Yours to edit, from here on.
def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[NT, 2] int32 on the device: (sequence, chunk in this sequence), in order.

    `cu_seqlens` [num_seqs + 1] int32 on the device. Two host syncs: it is read back, and the table
    that is made of it is sent.
    """
    lengths = cu_seqlens.diff().tolist()
    rows = [
        (sequence, chunk)
        for sequence, length in enumerate(lengths)
        for chunk in range(-(-length // chunk_size))
    ]
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)


def prepare_chunk_offsets(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[num_seqs + 1] int64 on the device: how many chunks come before each sequence, then how many
    there are. One host sync, for the zero that it begins with."""
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.cat([torch.tensor([0], device=cu_seqlens.device), chunks.cumsum(0)])


def search_chunk_tables(
    cu_seqlens: torch.Tensor, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Both tables of lengths that the host doesn't know (vLLM #38361).

    `cu_seqlens` [num_seqs + 1] int32 on the device, from 0 to `num_tokens`: where each sequence
    starts, then the end of the last one. `chunk_indices` has most_chunks(num_seqs, num_tokens,
    chunk_size) rows, and those behind the last chunk are (-1, -1).
    """
    indices = prepare_chunk_indices(cu_seqlens, chunk_size)
    num_rows = most_chunks(len(cu_seqlens) - 1, num_tokens, chunk_size)
    padding = indices.new_full((num_rows - len(indices), 2), -1)
    offsets = prepare_chunk_offsets(cu_seqlens, chunk_size)
    return ChunkTables(torch.cat([indices, padding]), offsets)


# region Given: what the code above uses. You may change it, and need not.


class ChunkTables(NamedTuple):
    """Which chunk of which sequence each program works on: the same for all layers of a step. A row
    of `chunk_indices` is (-1, -1) where there is no chunk: only tables that were made on the device
    have such rows, at their end."""

    chunk_indices: torch.Tensor
    """[NT, 2] int32: (sequence, chunk in this sequence), in order."""
    chunk_offsets: torch.Tensor
    """[num_seqs + 1] int64: how many chunks come before each sequence, then how many there are."""


def most_chunks(num_seqs: int, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE) -> int:
    """Chunks that so many sequences of so many tokens in all can have: what the host knows without
    their lengths. All but one sequence have a single token, and the last one the others."""
    if num_tokens < 0 or (num_tokens and not num_seqs):
        raise ValueError(f"{num_tokens} tokens in {num_seqs} sequences: each belongs to one")
    if num_tokens <= num_seqs:
        return num_tokens
    return num_seqs - 1 + -(-(num_tokens - num_seqs + 1) // chunk_size)


# endregion
