"""Integers that the host has at hand: read without asking the device."""

from __future__ import annotations

import numpy as np
import torch

HostIntegers = np.ndarray | torch.Tensor
"""One-dimensional integers in host memory."""


def host_integers(name: str, numbers: HostIntegers) -> np.ndarray:
    """int64. ValueError for a tensor on the device, and for what is no row of integers."""
    if isinstance(numbers, torch.Tensor):
        if numbers.device.type != "cpu":
            raise ValueError(
                f"{name} is on {numbers.device}, where to read it is to wait: give it on the host"
            )
        numbers = numbers.numpy()
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is {numbers.dtype} {list(numbers.shape)}: it must be integers in one dimension"
        )
    return numbers.astype(np.int64)
