"""One table uploaded from the host by itself.

The system never uploads one table alone: `plan_prefills` makes it by the same
`prepare_chunk_indices` of `chunk_tables`, and the step uploads it with everything else.
"""

from __future__ import annotations

import torch

from solutions.common.h2d import async_tensor_h2d

from .. import chunk_tables
from ..rule.chunks import FLA_CHUNK_SIZE


def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [NT, 2] int32 on the device: (sequence, chunk in this sequence), in order (vLLM
    #38361).

    `cu_seqlens` and `cu_seqlens_cpu` are [num_seqs + 1] int32, on the device and on the host: where
    each sequence starts, then the end of the last one. A sequence without tokens has no chunk.
    """
    rows = chunk_tables.prepare_chunk_indices(cu_seqlens_cpu, chunk_size)
    return async_tensor_h2d(rows, cu_seqlens.device)
