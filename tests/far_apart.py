"""Tensors whose rows lie further apart than 32 bits can count. On sim they are address space that
is never touched, which costs nothing; a GPU needs the memory."""

from __future__ import annotations

import importlib
import mmap
from collections.abc import Callable

import numpy as np
import pytest
import torch

from debubble.contract.protocol import Accelerator

HALF = 2**31
STRIDE = 2**30
"""The distance in numbers between two rows: the third row begins beyond the offsets of 32 bits."""
APART = 2**16
"""The distance in numbers between the starts of two tensors; a tensor has fewer numbers than
this."""
MAP_NORESERVE = 0x4000
"""The value of Linux's flag MAP_NORESERVE; Python has a name for it since 3.13."""


def only_the_kernels(
    accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch, *modules: str
) -> None:
    """Makes the kernels of these modules work directly on CPU tensors on sim. Otherwise sim would
    copy the tensors, and their address space would need memory."""
    if accelerator.modelled:
        for module in modules:
            run = lambda kernel, grid, *args, work, **meta: kernel[grid](*args, **meta)
            monkeypatch.setattr(importlib.import_module(module), "launch", run)


def address_space(accelerator: Accelerator, dtype: torch.dtype) -> torch.Tensor:
    """Returns more than 2**32 numbers of 2 or 4 bytes, with memory on both sides of the middle. A
    32-bit offset, which is negative there, so reaches memory too, but the wrong one."""
    size = 2 * HALF + 2**22
    if not accelerator.modelled:
        return torch.empty(size, dtype=dtype, device=accelerator.device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = mmap.mmap(-1, size * dtype.itemsize, flags)
    return torch.from_numpy(np.frombuffer(memory, np.uint8)).view(dtype)


def spreading(accelerator: Accelerator) -> Callable[..., torch.Tensor]:
    """Returns spread(tensor, dimension=0), which returns the same numbers, of 4 bytes each, with
    STRIDE between one index of the dimension and the next. All other dimensions are as in
    contiguous memory."""
    space = address_space(accelerator, torch.float32)
    taken = 0

    def spread(tensor: torch.Tensor, dimension: int = 0) -> torch.Tensor:
        nonlocal taken
        assert tensor.shape[dimension] <= 3 and tensor.numel() < APART
        strides = [*tensor.contiguous().stride()]
        strides[dimension] = STRIDE
        view = space.view(tensor.dtype).as_strided(tensor.shape, strides, HALF + taken * APART)
        taken += 1
        return view.copy_(tensor)

    return spread
