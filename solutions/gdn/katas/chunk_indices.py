"""One table at a time: from what the host knows, or from what the device knows itself."""

from __future__ import annotations

import torch

from solutions.common.h2d import async_tensor_h2d

from .. import chunk_tables
from ..rule.chunks import FLA_CHUNK_SIZE, check_chunk_size


def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[NT, 2] int32 on the device: (sequence, chunk in this sequence), in order (vLLM #38361).

    `cu_seqlens` and `cu_seqlens_cpu`: [num_seqs + 1] int32, on the device and on the host: where
    each sequence starts, then the end of the last one. A sequence without tokens has no chunk.
    """
    rows = chunk_tables.prepare_chunk_indices(cu_seqlens_cpu, chunk_size)
    return async_tensor_h2d(rows, cu_seqlens.device)


def prepare_chunk_offsets(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[num_seqs + 1] int64 on the device: how many chunks come before each sequence, then how many
    there are (vLLM #38361).

    `cu_seqlens` [num_seqs + 1] int32 on the device: where each sequence starts, then the end of the
    last one.
    """
    check_chunk_size(chunk_size)
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
