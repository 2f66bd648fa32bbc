"""Makes chunk tables once a step, from the scheduler's own copy of the starts."""

from __future__ import annotations

import numpy as np
import torch

from .rule.chunks import FLA_CHUNK_SIZE, ChunkTables


def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [NT, 2] int32 on the host: (sequence, chunk in this sequence) per chunk, in order.

    `cu_seqlens` is [num_seqs + 1] integers on the host, which the caller has checked. Nothing
    waits, and Python does as little for thousands of sequences as for one.
    """
    offsets = prepare_chunk_offsets(cu_seqlens, chunk_size).numpy()
    # Counted, not found by where a chunk 0 appears: a sequence without tokens has no chunk 0.
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    chunk = np.arange(len(sequence)) - offsets[sequence]
    return torch.from_numpy(np.stack([sequence, chunk], axis=1).astype(np.int32))


def prepare_chunk_offsets(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [num_seqs + 1] int64 on the device of `cu_seqlens`, host or GPU: how many chunks come
    before each sequence, then how many there are (vLLM #38361). Copies nothing between the two.

    `cu_seqlens` [num_seqs + 1] int32: where each sequence starts, then the end of the last one.
    """
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.nn.functional.pad(chunks.cumsum(0), (1, 0))


def prepare_chunk_tables(cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE) -> ChunkTables:
    """Returns both tables, `chunk_indices` and `chunk_offsets`, of the same `cu_seqlens`."""
    indices = prepare_chunk_indices(cu_seqlens, chunk_size)
    return ChunkTables(indices, prepare_chunk_offsets(cu_seqlens, chunk_size))
