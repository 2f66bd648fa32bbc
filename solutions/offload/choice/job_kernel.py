"""The first scheme of a swap kernel: a whole piece for a program, then its next one."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # However many pieces a call has, and wherever their list lies, it is the same compiled kernel.
    do_not_specialize=["num_jobs"],
    do_not_specialize_on_alignment=["src_addrs", "dst_addrs", "sizes"],
)
def swap_jobs_kernel(
    src_addrs,  # [num_jobs] int64, in device memory or in pinned host memory, as are the next two
    dst_addrs,  # [num_jobs] int64
    sizes,  # [num_jobs] int64, bytes: multiples of 8
    num_jobs,
    WORDS: tl.constexpr,  # of 8 bytes, in a chunk
):
    """One program: every num_programs-th job, from its first chunk to its last."""
    lane = tl.arange(0, WORDS)
    for job in range(tl.program_id(0), num_jobs, tl.num_programs(0)):
        source = tl.load(src_addrs + job).to(tl.pointer_type(tl.int64))
        target = tl.load(dst_addrs + job).to(tl.pointer_type(tl.int64))
        num_words = tl.load(sizes + job) // 8
        for first in range(0, num_words, WORDS):
            word = first + lane
            exists = word < num_words
            tl.store(target + word, tl.load(source + word, mask=exists), mask=exists)
