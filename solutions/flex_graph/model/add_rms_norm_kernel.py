"""A residual sum and the RMS norm behind it: each row is read once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # However many tokens a step has, it is the same compiled kernel.
    do_not_specialize=["num_rows"],
)
def add_rms_norm_kernel(
    normed,  # [num_rows, SIZE], contiguous
    residual,  # [num_rows, SIZE], contiguous
    update,  # [num_rows, SIZE], contiguous; not read without HAS_UPDATE
    weight,  # [SIZE]
    eps,
    num_rows,
    SIZE: tl.constexpr,
    HAS_UPDATE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two, at least SIZE
):
    """One program: ROWS rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    exists = (row < num_rows)[:, None] & (column < SIZE)[None, :]
    place = (row * SIZE)[:, None] + column[None, :]
    values = tl.load(residual + place, mask=exists, other=0.0).to(tl.float32)
    if HAS_UPDATE:
        values += tl.load(update + place, mask=exists, other=0.0).to(tl.float32)
        tl.store(residual + place, values.to(residual.dtype.element_ty), mask=exists)
    scale = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32)
    mean_square = tl.sum(values * values, 1) / SIZE
    result = values / tl.sqrt(mean_square + eps)[:, None] * scale[None, :]
    tl.store(normed + place, result.to(normed.dtype.element_ty), mask=exists)
