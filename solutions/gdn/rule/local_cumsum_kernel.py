"""The running sums of all chunks: each program finds its own in the table."""

from __future__ import annotations

import triton
import triton.language as tl

from .chunk_stages import locate_chunk


@triton.jit(
    # Slices of one upload, whatever it holds: they start anywhere.
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
    """One program: one chunk."""
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, tl.program_id(0), CHUNK)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row).to(tl.int64) * num_heads + head
    exists = (row < length) & (head < num_heads)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(gates, axis=0), mask=exists)
