"""Fourier transforms."""

from __future__ import annotations

from ..effects import Effects


def fft_of_complex(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of a complex Fourier transform: one kernel, and a second one if this
    direction scales the result."""
    return Effects(kernels=1 + bool(args[2]))


def fft_back(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of a transform to real numbers: the library overwrites its input, so the
    input is copied first; another kernel transforms all dimensions but the last."""
    dims, normalisation = args[1:3]
    return Effects(d2d=1, kernels=(len(dims) > 1) + 1 + bool(normalisation))
