"""Fourier transforms."""

from __future__ import annotations

from .effects import Effects


def fft_of_complex(args: tuple, kwargs: dict) -> Effects:
    """Scales the result in a second kernel, unless the transform in the other direction does
    that."""
    return Effects(kernels=1 + bool(args[2]))


def fft_back(args: tuple, kwargs: dict) -> Effects:
    """Transforms to real numbers. The library overwrites its input, so the input is copied; all
    dimensions but the last are transformed in a kernel before."""
    dims, normalisation = args[1:3]
    return Effects(d2d=1, kernels=(len(dims) > 1) + 1 + bool(normalisation))
