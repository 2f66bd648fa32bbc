"""First single op: how far the state has decayed inside the chunk when a token comes."""

from __future__ import annotations

import torch

from ..arguments import check_sequences, chunks_of
from ..local_cumsum import chunk_local_cumsum as cumsum_of_chunks
from .operands import FLOAT32, check_operand


def chunk_local_cumsum(
    g: torch.Tensor,
    chunk_size: int,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """[1, T, HV] float32: the gates of each token's chunk, added up to this token (vLLM #38361).

    g              [1, T, HV] float32, contiguous: the logarithm of the decay
    chunk_size     tokens of a chunk, a power of two, 16 or more
    cu_seqlens     [N + 1] int32: where each sequence starts, then the end of the last one; None for
                   one sequence of all tokens
    chunk_indices  [NT, 2] int32: of these cu_seqlens and chunks, by default made anew

    ValueError for what doesn't fit, before anything is launched.
    """
    check_operand("g", g, (1, "T", "HV"), g.device, FLOAT32)
    check_sequences(g, cu_seqlens, chunk_indices, chunk_size=chunk_size)
    starts, rows = chunks_of(g, cu_seqlens, chunk_indices, chunk_size)
    return cumsum_of_chunks(g.squeeze(0), chunk_size, starts, rows).unsqueeze(0)
