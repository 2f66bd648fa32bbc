"""Both tables by way of the host, which reads the lengths and uploads the tables."""

from __future__ import annotations

import torch

from ...before import prepare_chunk_indices, prepare_chunk_offsets
from ...rule.chunks import FLA_CHUNK_SIZE, ChunkTables, most_chunks


def search_chunk_tables(
    cu_seqlens: torch.Tensor, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Returns both tables on the device, with `chunk_indices` padded by (-1, -1) to the most rows
    that `num_tokens` tokens can need."""
    indices = prepare_chunk_indices(cu_seqlens, chunk_size)
    num_rows = most_chunks(len(cu_seqlens) - 1, num_tokens, chunk_size)
    padding = indices.new_full((num_rows - len(indices), 2), -1)
    offsets = prepare_chunk_offsets(cu_seqlens, chunk_size)
    return ChunkTables(torch.cat([indices, padding]), offsets)
