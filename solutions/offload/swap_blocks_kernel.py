"""The swap kernel: many pieces of memory, from addresses to addresses, in one launch.

Pieces and their parts are one flat list, shared out among the programs in turn, so that short lists
of long pieces and long lists of short ones keep every program busy. A program asks for the next
parts before the last one has arrived: without that it would wait for the link at every turn.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # However many pieces a call has, and wherever their list lies, it is the same compiled kernel.
    do_not_specialize=["num_jobs", "stride", "chunks_per_job"],
    do_not_specialize_on_alignment=["src_addrs", "dst_addrs", "sizes"],
)
def _swap_blocks_kernel(
    src_addrs,  # [num_jobs] int64, in device memory or in pinned host memory, as are the next two
    dst_addrs,  # [num_jobs] int64
    sizes,  # [num_jobs] int64, bytes: multiples of 8
    num_jobs,
    stride,  # from one number of a list to the next
    chunks_per_job,  # of the largest job
    WORDS: tl.constexpr,  # of 8 bytes, in a chunk
    VECTOR: tl.constexpr,  # all addresses and sizes are multiples of 16
    STAGES: tl.constexpr,  # chunks that a program has under way
):
    """One program: every num_programs-th chunk. num_jobs * chunks_per_job fits into an int32."""
    lane = tl.arange(0, WORDS)
    first_item, num_items = tl.program_id(0), num_jobs * chunks_per_job
    for item in tl.range(first_item, num_items, tl.num_programs(0), num_stages=STAGES):
        job = item // chunks_per_job
        # Of a job beyond 16 GiB: its words don't fit into an int32.
        first = (item - job * chunks_per_job).to(tl.int64) * WORDS
        source = tl.load(src_addrs + job * stride).to(tl.pointer_type(tl.int64)) + first + lane
        target = tl.load(dst_addrs + job * stride).to(tl.pointer_type(tl.int64)) + first + lane
        exists = lane < tl.load(sizes + job * stride) // 8 - first
        if VECTOR:
            # Said of the pointers and the mask: of an address as a number the compiler forgets it.
            source = tl.multiple_of(tl.max_contiguous(source, 2), 16)
            target = tl.multiple_of(tl.max_contiguous(target, 2), 16)
            exists = tl.max_constancy(exists, 2)
        tl.store(target, tl.load(source, mask=exists), mask=exists)
