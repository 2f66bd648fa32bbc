"""Limits the GPU memory that this process may take, for a GPU that several people share."""

from __future__ import annotations

import math
import os

import torch

VARIABLE = "DEBUBBLE_GPU_MEMORY"


def limit_in_gib() -> float | None:
    """Returns the limit in DEBUBBLE_GPU_MEMORY, or None if it isn't set. Raises ValueError if it is
    no number of GiB above 0."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        raise ValueError(f"{VARIABLE} {text!r} is no limit: it takes GiB above 0, such as 1.5")
    return limit


def limit_memory(device: torch.device) -> None:
    """Makes PyTorch's allocator fail beyond the limit in DEBUBBLE_GPU_MEMORY as if the GPU were
    full. The CUDA context, and memory that libraries allocate themselves, come on top."""
    limit = limit_in_gib()
    if limit is not None:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit * 2**30 / total), device)
