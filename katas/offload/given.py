"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from debubble.accelerator import current

LARGEST_CHUNK = 8192
CopyPieces = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


def _new_descriptor_buffers(capacity: int) -> torch.Tensor:
    """Returns an int64 tensor [3, capacity] for source addresses, target addresses and sizes,
    pinned if the platform can pin.

    Each list is dense, as the driver needs it.
    """
    return torch.empty((3, capacity), dtype=torch.int64, pin_memory=current().pin_memory)


def copy_blocks(
    source: torch.Tensor, source_ids: Sequence[int], target: torch.Tensor, target_ids: Sequence[int]
) -> None:
    """Queues a copy of each block on the current stream. `source` and `target` are [blocks, words],
    one of them on the device and the other in pinned host memory."""
    nbytes = source[0].nbytes
    for source_id, target_id in zip(source_ids, target_ids, strict=True):
        start, to = source.data_ptr() + source_id * nbytes, target.data_ptr() + target_id * nbytes
        current().copy_bytes(start, to, nbytes)


def merge_adjacent(
    src: np.ndarray, dst: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns source addresses, target addresses and sizes in bytes, int64 [M] each with M <= N,
    that copy the same bytes as the arguments, int64 [N] each.

    A piece that begins where the piece before it in the list ends, in the source and in the target,
    is joined to it. Pieces of 0 bytes are dropped, and do not separate their neighbours.
    """
    holds_bytes = sizes != 0
    if not holds_bytes.all():
        src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) < 2:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.concatenate(([0], np.flatnonzero(~continues) + 1))
    return src[first], dst[first], np.add.reduceat(sizes, first)
