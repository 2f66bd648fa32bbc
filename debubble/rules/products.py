"""Matrix products, normalisation and attention."""

from __future__ import annotations

import torch

from .effects import COPIED_FIRST, Effects


def product(args: tuple, kwargs: dict) -> Effects:
    """Few rows and a long inner dimension are split over the device, then summed."""
    rows, inner = args[-2].shape[-2:]
    halves = args[-1].dtype in (torch.float16, torch.bfloat16)
    return Effects(kernels=1 + (halves and rows <= 16 and inner >= 4096))


def addmm(args: tuple, kwargs: dict) -> Effects:
    """A bias vector is added by the library; a whole matrix is copied into the result first."""
    bias = args[0]
    if not bias.is_contiguous():
        return Effects(kernels=2)
    return COPIED_FIRST if bias.dim() > 1 else product(args, kwargs)


def normalisation(args: tuple, kwargs: dict) -> Effects:
    """Rows that can be read in vectors of four take one kernel, others two."""
    return Effects(kernels=1 if args[0].shape[-1] % 4 == 0 else 2)


def batch_normalisation(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=3) if args[5] else Effects(d2d=1, kernels=2)


def convolution(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=1 + (args[2] is not None))


def attention(args: tuple, kwargs: dict) -> Effects:
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    return Effects(kernels=1 if mask is None else 4)
