"""The Triton kernels that the programs of this folder launch."""

import triton
import triton.language as tl


@triton.jit
def scaled(x, out, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) * scale, inside)


@triton.jit
def shifted(x, out, n, bias, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, inside)
    if bias is not None:
        value += tl.load(bias + at, inside)
    tl.store(out + at, value, inside)


@triton.jit(do_not_specialize=["n"])
def doubled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) * 2, inside)
