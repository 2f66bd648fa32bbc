"""First single op: how far the state has decayed inside the chunk before each token."""

from __future__ import annotations

import torch

from ..arguments import check_sequences, chunks_of
from solutions.gdn.katas.local_cumsum import chunk_local_cumsum as cumsum_of_chunks
from .operands import FLOAT32, check_operand


def chunk_local_cumsum(
    g: torch.Tensor,
    chunk_size: int,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns [1, T, HV] float32: for each token the sum of the gates from the start of its chunk
    up to this token (vLLM #38361).

    g              [1, T, HV] float32, contiguous: the logarithm of the decay
    chunk_size     tokens of a chunk, a power of two, 16 or more
    cu_seqlens     [N + 1] int32: where each sequence starts, then the end of the last one; None for
                   one sequence of all tokens
    chunk_indices  [NT, 2] int32: table of these cu_seqlens and chunks; by default it is made here

    Raises ValueError, before any launch, for arguments that don't fit.
    """
    check_operand("g", g, (1, "T", "HV"), g.device, FLOAT32)
    check_sequences(g, cu_seqlens, chunk_indices, chunk_size=chunk_size)
    starts, rows = chunks_of(g, cu_seqlens, chunk_indices, chunk_size)
    return cumsum_of_chunks(g.squeeze(0), chunk_size, starts, rows).unsqueeze(0)
