"""Tensors whose rows lie further apart than 32 bits count. On sim they are address space that
nobody touches, which costs nothing; a GPU has to have the memory."""

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
"""Of numbers: the third row then begins where 32 bits have no offset any more."""
APART = 2**16
"""Numbers between the places at which tensors begin: a row has fewer."""
MAP_NORESERVE = 0x4000
"""Of Linux; Python has a name for it since 3.13."""


def only_the_kernels(
    accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch, *modules: str
) -> None:
    """On sim these modules' kernels work on the tensors of the CPU that they are given, of which
    sim would make copies of its own."""
    if accelerator.modelled:
        for module in modules:
            run = lambda kernel, grid, *args, work, **meta: kernel[grid](*args, **meta)
            monkeypatch.setattr(importlib.import_module(module), "launch", run)


def address_space(accelerator: Accelerator, dtype: torch.dtype) -> torch.Tensor:
    """2**32 numbers and some, of 2 or 4 bytes: memory on both sides of the middle, so that an
    offset of 32 bits, which is negative there, reaches memory too, and the wrong one."""
    size = 2 * HALF + 2**22
    if not accelerator.modelled:
        return torch.empty(size, dtype=dtype, device=accelerator.device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = mmap.mmap(-1, size * dtype.itemsize, flags)
    return torch.from_numpy(np.frombuffer(memory, np.uint8)).view(dtype)


def spreading(accelerator: Accelerator) -> Callable[..., torch.Tensor]:
    """spread(tensor, dimension=0): the same numbers, of 4 bytes each, with STRIDE between those of
    one index of the dimension and the next. The others lie as in contiguous memory."""
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
