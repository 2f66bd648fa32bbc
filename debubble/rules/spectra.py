"""Fourier transforms."""

from __future__ import annotations

from .effects import Effects


def fft_of_complex(args: tuple, kwargs: dict) -> Effects:
    """Scaled afterwards, unless that is left to the transform in the other direction."""
    return Effects(kernels=1 + bool(args[2]))


def fft_back(args: tuple, kwargs: dict) -> Effects:
    """To real numbers: the library overwrites what it reads, so that is a copy. All dimensions
    but the last go before it."""
    dims, normalisation = args[1:3]
    return Effects(d2d=1, kernels=(len(dims) > 1) + 1 + bool(normalisation))
