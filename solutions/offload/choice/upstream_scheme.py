"""The scheme that upstream merged, with constants of a preset: what ours is compared with."""

from __future__ import annotations

import torch

from debubble.accelerator import ByAddress, Work, current, launch

from ..dma import submit_copies
from ..paths.descriptors import WORD, Descriptors
from .job_kernel import swap_jobs_kernel
from .presets import UPSTREAM, Preset

NUM_WARPS = 4


def swap_with_preset(
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    preset: Preset = UPSTREAM,
) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to dst_addrs[i], each a CPU int64 tensor [N],
    on the current stream.

    Fewer pieces than the preset's `min_n` are a DMA batch. For more, the descriptors travel in
    three uploads, and each of the preset's programs copies whole pieces in turn. Pinned descriptors
    must stay as they are until they are uploaded. What they say is not looked at: that the sizes
    are multiples of 8, and that a kernel reaches the memory, the caller knows.
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
        # From pageable memory the host would have to wait, and a list with gaps becomes a pageable
        # copy first. What is dense and pinned stays where it is.
        column = column.contiguous().pin_memory()
    return column.to(accelerator.device, non_blocking=True)
