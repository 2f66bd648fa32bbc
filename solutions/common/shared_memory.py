"""The shared memory of the GPU on which kernels run, by which they choose their tiles."""

from __future__ import annotations

import functools

import torch
import triton

INTERPRETED = 0
"""Bytes of shared memory that stand for the interpreter, which has none."""


@functools.cache
def shared_memory_of(device: torch.device) -> int:
    """Returns the bytes of shared memory that one block can have, or INTERPRETED if kernels run on
    the CPU."""
    if triton.knobs.runtime.interpret:
        return INTERPRETED
    properties = torch.cuda.get_device_properties(device)
    return properties.shared_memory_per_block_optin  # type: ignore[attr-defined]  # stub lacks it
