"""Makes chunk tables in each layer, from starts that are read back from the device."""

from __future__ import annotations

import torch

from .rule.chunks import FLA_CHUNK_SIZE, ChunkTables


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


def prepare_chunk_tables(cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE) -> ChunkTables:
    """Returns both tables, `chunk_indices` and `chunk_offsets`, of the same `cu_seqlens`."""
    indices = prepare_chunk_indices(cu_seqlens, chunk_size)
    return ChunkTables(indices, prepare_chunk_offsets(cu_seqlens, chunk_size))
