"""Page-locked host memory: newly allocated, or existing memory that is locked."""

from __future__ import annotations

import mmap
from weakref import finalize

import numpy as np
import torch

from debubble.accelerator import Accelerator, current

MOST_BYTES = 256 << 30
"""The most bytes that one call page-locks: the driver refuses 512 GiB."""
ALIGNMENT = 2 << 20
"""Bytes of the largest common page. One call ends and the next begins at a multiple of this, since
no two calls may lock the same page."""
MOST_WASTED = 1 << 16
"""The most bytes that `pinned_blocks` lets PyTorch's rounding waste."""


def pinned_blocks(num_blocks: int, row_bytes: int) -> torch.Tensor:
    """Allocates a tensor of zeros in pinned host memory, int8 [num_blocks, row_bytes].

    On CUDA PyTorch rounds its bytes up to a power of two, 6 GiB to 8. If that wastes more than 64
    KiB, memory of the exact size is page-locked instead, until its last tensor is gone. Raises
    RuntimeError if nothing can be pinned.
    """
    accelerator, nbytes = current(), num_blocks * row_bytes
    if not accelerator.pin_memory:
        raise RuntimeError("host memory can't be pinned here, and KV blocks have to be")
    if (1 << max(nbytes - 1, 0).bit_length()) - nbytes <= MOST_WASTED:
        return torch.zeros((num_blocks, row_bytes), dtype=torch.int8, pin_memory=True)
    # Fresh pages are zero, and no other memory shares them.
    pages = np.frombuffer(mmap.mmap(-1, nbytes), np.int8)
    locked = _lock(accelerator, pages.ctypes.data, nbytes)
    finalize(pages, _unlock, accelerator, locked).atexit = False
    return torch.from_numpy(pages).view(num_blocks, row_bytes)


def _lock(accelerator: Accelerator, address: int, nbytes: int) -> list[int]:
    """Page-locks memory, and returns the addresses to unlock. Locks nothing if it raises."""
    locked: list[int] = []
    try:
        for start, size in _parts(address, nbytes):
            accelerator.register_host_memory(start, size)
            locked.append(start)
    except BaseException:
        _unlock(accelerator, locked)
        raise
    return locked


def _unlock(accelerator: Accelerator, locked: list[int]) -> None:
    while locked:
        accelerator.unregister_host_memory(locked.pop())


class RegisteredMemory:
    """A CPU tensor whose memory is page-locked until `release`, or until its `with` block ends.

    Wait for all transfers from and to it before that. Raises RuntimeError with the driver's reason,
    and leaves nothing locked, if a part can't be locked.
    """

    def __init__(self, tensor: torch.Tensor, accelerator: Accelerator) -> None:
        self.tensor = tensor
        self._accelerator = accelerator
        self._locked = _lock(accelerator, tensor.data_ptr(), tensor.nbytes)

    def release(self) -> None:
        """Unlocks the memory; does nothing if it is unlocked already."""
        _unlock(self._accelerator, self._locked)

    def __enter__(self) -> torch.Tensor:
        return self.tensor

    def __exit__(self, *exception: object) -> None:
        self.release()


def registered(tensor: torch.Tensor) -> RegisteredMemory:
    """Page-locks the memory of a contiguous CPU tensor, in calls of up to 256 GiB each.

    `with registered(tensor) as blocks:` unlocks it at the end. Raises ValueError for other tensors,
    and RuntimeError with the driver's reason, with nothing left locked, if a part can't be locked.
    """
    if tensor.device.type != "cpu":
        raise ValueError(f"the tensor is on {tensor.device}: only host memory is page-locked")
    if not tensor.is_contiguous() or tensor.nbytes == 0:
        raise ValueError(
            f"a tensor of shape {list(tensor.shape)} and strides {list(tensor.stride())} can't be "
            "page-locked: it must be contiguous, and not empty"
        )
    return RegisteredMemory(tensor, current())


def _parts(address: int, nbytes: int) -> list[tuple[int, int]]:
    """Returns (address, number of bytes) of each part that one call page-locks, chosen so that no
    two calls share a page."""
    parts, end = [], address + nbytes
    while address < end:
        until = (address + MOST_BYTES) // ALIGNMENT * ALIGNMENT
        parts.append((address, min(until, end) - address))
        address = until
    return parts
