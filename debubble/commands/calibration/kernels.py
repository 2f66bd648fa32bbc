"""Small kernels that a calibration times."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def many_arguments(a, b, c, d, e, f, rows, columns, s0, s1, s2, s3, s4, scale, BLOCK: tl.constexpr):
    """Computes b = a * scale, rows * columns values, one BLOCK per program. Has as many arguments
    as an attention kernel, most of them unused, to time a launch with them."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < rows * columns
    tl.store(b + offsets, tl.load(a + offsets, mask=inside) * scale, mask=inside)


@triton.jit
def matrix_product(a, b, out, SIZE: tl.constexpr, BLOCK: tl.constexpr, INNER: tl.constexpr):
    """Computes out = a @ b, all [SIZE, SIZE] bf16, one [BLOCK, BLOCK] tile per program."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, INNER)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for start in range(0, SIZE, INNER):
        left = tl.load(a + rows[:, None] * SIZE + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * SIZE + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * SIZE + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def copy_words(source, target, BLOCK: tl.constexpr):
    """Copies `source` to `target`, int64 [programs * BLOCK], one BLOCK per program."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets))
