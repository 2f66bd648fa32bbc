"""Reads a tensor, and does nothing with it."""

import triton
import triton.language as tl


@triton.jit
def read_once_kernel(numbers, seen, num_blocks, BLOCK: tl.constexpr):
    """`numbers` [num_blocks * BLOCK] int32, in strides of the grid; `seen` [programs] int32."""
    program, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    together = tl.zeros([BLOCK], tl.int32)
    for block in range(program, num_blocks, programs):
        # What nobody used would not be read.
        together ^= tl.load(numbers + block * BLOCK + tl.arange(0, BLOCK))
    tl.store(seen + program, tl.xor_sum(together, 0))
