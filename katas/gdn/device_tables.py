"""Tables that the host never sees (chapter 03, hard, 40 minutes).

If a step begins before the last one has ended, the host may not know the lengths yet. They are on
the device, and the host knows only their sum, `num_tokens`. The function below makes both tables of
such lengths, and works. But it reads the lengths first, so it waits, and no graph can capture it.

Make both tables on the device. The host has to set the number of rows without knowing the lengths:
take the largest number that is possible, `most_chunks`, and fill the rows that are not chunks with
-1. Sequences may have no tokens, and 64 of them take as many launches as 4. PyTorch's own operators
are enough. Our solution is the Triton kernel of the step, whose rows search as yours will.

You need to know Triton, a binary search, and the tables of `chunk_indices` and `chunk_offsets`.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_device_tables.py

Stuck?         .venv/bin/debubble hint device_tables
Start afresh?  .venv/bin/debubble reset device_tables
"""

from __future__ import annotations

import torch

from katas.gdn.given import FLA_CHUNK_SIZE, ChunkTables, most_chunks


# Yours to edit, from here on.
def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [NT, 2] int32 on the device: (sequence, chunk in this sequence), in order.

    `cu_seqlens` is [num_seqs + 1] int32 on the device. Takes two host syncs: the starts are read
    back, and the table is uploaded.
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
    """Returns [num_seqs + 1] int64 on the device: how many chunks come before each sequence, then
    how many there are. Takes one host sync: the leading zero is uploaded."""
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.cat([torch.tensor([0], device=cu_seqlens.device), chunks.cumsum(0)])


def search_chunk_tables(
    cu_seqlens: torch.Tensor, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Returns both tables for sequences whose lengths the host doesn't know (vLLM #38361).

    `cu_seqlens` is [num_seqs + 1] int32 on the device, from 0 to `num_tokens`: where each sequence
    starts, then the end of the last one. `chunk_indices` has most_chunks(num_seqs, num_tokens,
    chunk_size) rows; the rows after the last chunk are (-1, -1).
    """
    indices = prepare_chunk_indices(cu_seqlens, chunk_size)
    num_rows = most_chunks(len(cu_seqlens) - 1, num_tokens, chunk_size)
    padding = indices.new_full((num_rows - len(indices), 2), -1)
    offsets = prepare_chunk_offsets(cu_seqlens, chunk_size)
    return ChunkTables(torch.cat([indices, padding]), offsets)
