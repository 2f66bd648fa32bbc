"""A launch for each chunk, with starts that the host reads from the device."""

from __future__ import annotations

from itertools import pairwise

import torch
import triton

from debubble.accelerator import launch

from .chunk_cumsum_kernel import chunk_cumsum_kernel


def chunk_local_cumsum(
    g: torch.Tensor, chunk_size: int, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor
) -> torch.Tensor:
    """[num_tokens, num_heads] float32: the gates of each token's chunk, added up to this token."""
    out = torch.empty_like(g)
    num_heads = g.shape[1]
    for start, end in pairwise(cu_seqlens.tolist()):
        for first in range(start, end, chunk_size):
            launch(
                chunk_cumsum_kernel,
                (1,),
                out,
                g,
                first,
                min(end - first, chunk_size),
                num_heads,
                CHUNK=chunk_size,
                HEADS=triton.next_power_of_2(num_heads),
            )
    return out
