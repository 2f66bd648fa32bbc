"""Operators whose result, or its size, the host has to know."""

from __future__ import annotations

import torch

from ..effects import NOTHING, ONE_KERNEL, Effects
from .sorting import radix_kernels

COUNTED_IN_ONE_BLOCK = 4096
"""The most elements that one block of threads counts in `nonzero`."""


def nonzero(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `nonzero`: kernels that count, a read of the count on the host, and
    kernels that write the positions."""
    mask = args[0]
    if mask.numel() == 0:
        return Effects(kernels=2, reads=1)
    return Effects(kernels=3 + (mask.dim() > 1) + (mask.numel() > COUNTED_IN_ONE_BLOCK), reads=1)


def equal(args: tuple, kwargs: dict) -> Effects:
    a, b = args[:2]
    if a.shape != b.shape or (a.data_ptr() == b.data_ptr() and a.stride() == b.stride()):
        return NOTHING
    return Effects(kernels=2, reads=1)


def bincount(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `bincount`: the host reads the smallest and the largest value."""
    if args[0].numel() == 0:
        return ONE_KERNEL
    return Effects(kernels=2, reads=2, kernels_after=2)


def histc(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `histc`: the host reads the smallest and the largest value, unless the
    range is given."""
    low = args[2] if len(args) > 2 else kwargs.get("min", 0)
    high = args[3] if len(args) > 3 else kwargs.get("max", 0)
    if low != high or args[0].numel() == 0:
        return Effects(kernels=2)
    return Effects(kernels=2, reads=2, kernels_after=2)


def matrix_exp(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `matrix_exp`: a single matrix is compared with each bound of an
    approximation, and the matrices of a batch are sorted by these bounds."""
    matrices = args[0]
    if matrices.numel() == 0 or matrices.size(-1) == 1:
        return ONE_KERNEL
    if matrices.numel() == matrices.size(-1) ** 2:
        return Effects(uploads=3, kernels=8, reads=3, kernels_after=8)
    return Effects(uploads=1, kernels=8, reads=2, kernels_after=8)


def unique_consecutive(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `unique_consecutive`: with `dim`, kernels compare whole rows, and the
    host also waits for the number of rows."""
    dim = args[3] if len(args) > 3 else kwargs.get("dim")
    if dim is None:
        return Effects(kernels=1, reads=1, kernels_after=1)
    return Effects(kernels=3, reads=1, syncs=1, kernels_after=1)


def unique(args: tuple, kwargs: dict) -> Effects:
    inverse = args[2] if len(args) > 2 else kwargs.get("return_inverse", False)
    if args[0].dtype == torch.bool:
        in_blocks = args[0].numel() > COUNTED_IN_ONE_BLOCK
        return Effects(kernels=1 + 5 * inverse + in_blocks, reads=1, kernels_after=1)
    size = args[0].element_size()
    sorting = radix_kernels(args[0].numel(), 8 * size, size)
    return Effects(kernels=1 + 5 * inverse + sorting, reads=1, kernels_after=1)
