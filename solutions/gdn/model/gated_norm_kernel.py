"""RMS norm with an output gate: each row is read once, with its gate."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # However many tokens a step has, it is the same compiled kernel.
    do_not_specialize=["num_rows"],
)
def gated_norm_kernel(
    output,  # [num_tokens, HEADS, SIZE], contiguous
    x,  # [num_tokens, HEADS, SIZE], the heads of a token contiguous
    z,  # [num_tokens, HEADS, SIZE], likewise
    weight,  # [SIZE]
    eps,
    num_rows,  # num_tokens * HEADS
    x_stride,
    z_stride,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two, at least SIZE
):
    """One program: ROWS heads, of one token or of several."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    token = row // HEADS
    head = row % HEADS * SIZE
    exists = (row < num_rows)[:, None] & (column < SIZE)[None, :]
    place = (token * x_stride + head)[:, None] + column[None, :]
    values = tl.load(x + place, mask=exists, other=0.0).to(tl.float32)
    place = (token * z_stride + head)[:, None] + column[None, :]
    gate = tl.load(z + place, mask=exists, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32)
    mean_square = tl.sum(values * values, 1) / SIZE
    normed = values / tl.sqrt(mean_square + eps)[:, None] * scale[None, :]
    result = normed * gate / (1.0 + tl.exp(-gate))
    place = (row * SIZE)[:, None] + column[None, :]
    tl.store(output + place, result.to(output.dtype.element_ty), mask=exists)
