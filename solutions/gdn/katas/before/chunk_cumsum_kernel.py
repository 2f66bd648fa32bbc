"""The running sums of one chunk: for whoever knows on the host where it is."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["first", "length"])
def chunk_cumsum_kernel(
    out,  # [num_tokens, num_heads] float32, contiguous
    g,  # [num_tokens, num_heads] float32, contiguous
    first,  # the place of the chunk's first token
    length,  # how many tokens it has, at most CHUNK
    num_heads,
    CHUNK: tl.constexpr,
    HEADS: tl.constexpr,  # a power of two, at least num_heads
):
    """One program: one chunk."""
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row).to(tl.int64) * num_heads + head
    exists = (row < length) & (head < num_heads)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(gates, axis=0), mask=exists)
