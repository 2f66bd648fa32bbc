"""The gate of an MLP: one pass over both halves of its projection."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # However many tokens a step has, it is the same compiled kernel.
    do_not_specialize=["num_rows"],
)
def silu_and_mul_kernel(
    output,  # [num_rows, SIZE], contiguous
    gate_up,  # [num_rows, 2 * SIZE], contiguous: gates, then what they let through
    num_rows,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program: BLOCK columns of ROWS rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = (row < num_rows)[:, None] & (column < SIZE)[None, :]
    place = (row * (2 * SIZE))[:, None] + column[None, :]
    gate = tl.load(gate_up + place, mask=exists, other=0.0).to(tl.float32)
    up = tl.load(gate_up + place + SIZE, mask=exists, other=0.0).to(tl.float32)
    result = gate / (1.0 + tl.exp(-gate)) * up
    place = (row * SIZE)[:, None] + column[None, :]
    tl.store(output + place, result.to(output.dtype.element_ty), mask=exists)
