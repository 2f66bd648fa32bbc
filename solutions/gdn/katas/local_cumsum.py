"""Computes the running sums of the gates inside each chunk, for all chunks by one launch: each
program finds its chunk in the table. The system sums in the kernel that solves a chunk
(`rule/solve_chunks.py`), which is too long for an exercise."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..rule.chunk_stages import bounded, locate_chunk


@triton.jit(
    # Slices of one upload, which may start at any address.
    do_not_specialize_on_alignment=["cu_seqlens", "chunk_indices"],
)
def local_cumsum_kernel(
    out,  # [num_tokens, num_heads] float32, contiguous
    g,  # [num_tokens, num_heads] float32, contiguous
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32, contiguous
    num_heads,
    CHUNK: tl.constexpr,
    HEADS: tl.constexpr,  # a power of two, at least num_heads
):
    """Adds up the gates of one chunk in each program."""
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, tl.program_id(0), CHUNK)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row).to(tl.int64) * num_heads + head
    exists = (row < length) & (head < num_heads)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(bounded(gates), axis=0), mask=exists)


def chunk_local_cumsum(
    g: torch.Tensor, chunk_size: int, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor
) -> torch.Tensor:
    """Returns [num_tokens, num_heads] float32: the sum of the gates of each token's chunk, up to
    this token (vLLM #38361).

    g              [num_tokens, num_heads] float32, contiguous
    chunk_size     tokens of a chunk, a power of two
    cu_seqlens     [num_seqs + 1] int32: where each sequence starts, then the end of the last one
    chunk_indices  [num_rows, 2] int32: (sequence, chunk in this sequence), in any order; a row
                   (-1, -1) is skipped
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
