"""The DMA batch: a list of copies that the copy engine gets in one call of the driver."""

from __future__ import annotations

import torch

from debubble.accelerator import Accelerator, current

from .paths.descriptors import WORD, Descriptors
from .paths.reach import check_copy

MOST_DESCRIPTORS = 32_768
"""The most descriptors in one call of the driver. One driver version crashed at 51,828."""


def copy_batch(
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    is_src_access_order_any: bool = False,
) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to dst_addrs[i], each a CPU int64 tensor [N].

    The copies run on the current stream, which can't be the default one. Any sizes and alignments
    are allowed. The host's side may be pageable memory, though the copies are slower then. The
    descriptors may be changed at once. `is_src_access_order_any` lets the engine read sources
    before earlier work of the stream is done; it only has an effect if all sources are in host
    memory.

    Raises ValueError, naming the descriptor, before anything is copied, for tensors that don't fit,
    sizes below 0, targets that overlap, and addresses outside of any memory. Raises RuntimeError
    for the default stream and for anything that the driver refuses.
    """
    descriptors = Descriptors.of(src_addrs, dst_addrs, sizes)
    descriptors.check()
    is_upload = check_copy(current(), descriptors)
    submit_copies(current(), descriptors, any_order=is_src_access_order_any and is_upload)


def submit_copies(
    accelerator: Accelerator, descriptors: Descriptors, *, any_order: bool = False
) -> None:
    """Queues copies as `copy_batch` does, without checks: only for descriptors that are known to be
    right. `any_order` is only for sources in host memory. Raises RuntimeError for anything that the
    driver refuses."""
    if descriptors.extent.smallest <= 0:
        descriptors = descriptors[descriptors.sizes > 0]
    if not accelerator.has_copy_batch:
        _copy_one_by_one(accelerator, descriptors)
        return
    start, count = descriptors.start, len(descriptors)
    if start is not None and count <= MOST_DESCRIPTORS:
        # The driver gets the lists as they are. Anything more costs a short copy a tenth.
        nbytes = WORD * count
        accelerator.copy_lists(
            start, start + nbytes, start + 2 * nbytes, count, any_order=any_order
        )
        return
    sources, targets, sizes = descriptors.dense()
    for first in range(0, len(sizes), MOST_DESCRIPTORS):
        part = slice(first, first + MOST_DESCRIPTORS)
        accelerator.copy_batch(sources[part], targets[part], sizes[part], any_order=any_order)


def _copy_one_by_one(accelerator: Accelerator, descriptors: Descriptors) -> None:
    columns = (descriptors.sources, descriptors.targets, descriptors.sizes)
    for source, target, size in zip(*(column.tolist() for column in columns), strict=True):
        try:
            accelerator.copy_bytes(source, target, size)
        except RuntimeError as error:
            raise RuntimeError(f"{size} bytes from {source:#x} to {target:#x}: {error}") from error
