"""The running sums of the gates inside each chunk, of all chunks by one launch."""

from __future__ import annotations

import torch
import triton

from debubble.accelerator import Work, launch

from .local_cumsum_kernel import local_cumsum_kernel


def chunk_local_cumsum(
    g: torch.Tensor, chunk_size: int, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor
) -> torch.Tensor:
    """[num_tokens, num_heads] float32: the gates of each token's chunk, added up to this token
    (vLLM #38361).

    g              [num_tokens, num_heads] float32, contiguous
    chunk_size     tokens of a chunk, a power of two
    cu_seqlens     [num_seqs + 1] int32: where each sequence starts, then the end of the last one
    chunk_indices  [num_rows, 2] int32: (sequence, chunk in this sequence), in any order; nothing is
                   done for a row (-1, -1)
    """
    out = torch.empty_like(g)
    num_heads = g.shape[1]
    launch(
        local_cumsum_kernel,
        (len(chunk_indices),),
        out,
        g,
        cu_seqlens,
        chunk_indices,
        num_heads,
        CHUNK=chunk_size,
        HEADS=triton.next_power_of_2(num_heads),
        work=lambda: Work(bytes=2 * g.nbytes + chunk_indices.nbytes, tensor_cores=False),
    )
    return out
