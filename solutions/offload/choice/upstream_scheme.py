"""The scheme that upstream merged, with a preset's constants: ours is compared with it.

A program copies a whole piece, then its next one; the descriptors take three uploads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import ByAddress, Work, current, launch

from ..dma import submit_copies
from ..paths.descriptors import WORD, Descriptors
from .presets import UPSTREAM, Preset

NUM_WARPS = 4


@triton.jit(
    # One compiled kernel serves any number of pieces, and lists at any address.
    do_not_specialize=["num_jobs"],
    do_not_specialize_on_alignment=["src_addrs", "dst_addrs", "sizes"],
)
def swap_jobs_kernel(
    src_addrs,  # [num_jobs] int64, in device or pinned host memory, as are dst_addrs and sizes
    dst_addrs,  # [num_jobs] int64
    sizes,  # [num_jobs] int64, bytes: multiples of 8
    num_jobs,
    WORDS: tl.constexpr,  # words of 8 bytes in a chunk
):
    """Copies pieces of memory ("jobs"): each program copies every num_programs-th job, chunk by
    chunk."""
    lane = tl.arange(0, WORDS)
    for job in range(tl.program_id(0), num_jobs, tl.num_programs(0)):
        source = tl.load(src_addrs + job).to(tl.pointer_type(tl.int64))
        target = tl.load(dst_addrs + job).to(tl.pointer_type(tl.int64))
        num_words = tl.load(sizes + job) // 8
        for first in range(0, num_words, WORDS):
            word = first + lane
            exists = word < num_words
            tl.store(target + word, tl.load(source + word, mask=exists), mask=exists)


def swap_with_preset(
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    preset: Preset = UPSTREAM,
) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to dst_addrs[i], each a CPU int64 tensor [N],
    on the current stream.

    Fewer pieces than the preset's `min_n` are a DMA batch. For more, the descriptors take three
    uploads, and each of the preset's programs copies whole pieces in turn. Pinned descriptors must
    stay unchanged until they are uploaded. Descriptors are not checked: the caller ensures that
    sizes are multiples of 8, and that a kernel can reach the memory.
    """
    descriptors = Descriptors.of(src_addrs, dst_addrs, sizes)
    if len(descriptors) < preset.min_n:
        submit_copies(current(), descriptors, any_order=True)
        return
    launch(
        swap_jobs_kernel,
        (min(preset.num_programs, len(descriptors)),),
        *map(_uploaded, (src_addrs, dst_addrs, sizes)),
        len(descriptors),
        WORDS=preset.bytes_per_chunk // WORD,
        num_warps=NUM_WARPS,
        work=lambda: Work(by_address=ByAddress(*descriptors.dense())),
    )


def _uploaded(column: torch.Tensor) -> torch.Tensor:
    accelerator = current()
    if accelerator.pin_memory:
        # An upload from pageable memory would make the host wait, and a list with gaps first
        # becomes a pageable copy. A list that is dense and pinned is used as it is.
        column = column.contiguous().pin_memory()
    return column.to(accelerator.device, non_blocking=True)
