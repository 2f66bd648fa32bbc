"""`torch.cuda.memory_allocated` and its like: what tensors on sim hold.

Counted from the moment on that "cuda" means sim, as PyTorch's allocator rounds it. The allocator
itself isn't simulated: what it reserves is taken to be what was held at most, in whole segments.
"""

from __future__ import annotations

from typing import Any

from ...memory.blocks import IN_USE
from .properties import properties_of

SEGMENT = 2 << 20
"""Bytes of the allocator's smallest segment."""


def memory_allocated(device: Any = None) -> int:
    return IN_USE.now


def max_memory_allocated(device: Any = None) -> int:
    return IN_USE.most


def memory_reserved(device: Any = None) -> int:
    return -(-IN_USE.most // SEGMENT) * SEGMENT


def reset_peak_memory_stats(device: Any = None) -> None:
    IN_USE.most = IN_USE.now


def memory_stats(device: Any = None) -> dict[str, int]:
    figures = {
        "allocated_bytes": (IN_USE.now, IN_USE.most),
        "active_bytes": (IN_USE.now, IN_USE.most),
        "reserved_bytes": (memory_reserved(), memory_reserved()),
    }
    stats = {
        f"{name}.all.{which}": value
        for name, values in figures.items()
        for which, value in zip(("current", "peak"), values, strict=True)
    }
    return {**stats, "allocation.all.allocated": IN_USE.allocations, "num_ooms": 0}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    return "\n".join(f"{name}: {value:,}" for name, value in memory_stats().items())


def mem_get_info(gpu: str) -> tuple[int, int]:
    """Bytes that are free on the calibrated GPU, and that it has."""
    total = properties_of(gpu).total_memory
    return total - memory_reserved(), total


def empty_cache() -> None:
    """Nothing is kept that could be given back."""


FUNCTIONS = {
    "memory_allocated": memory_allocated,
    "max_memory_allocated": max_memory_allocated,
    "memory_reserved": memory_reserved,
    "memory_cached": memory_reserved,
    "max_memory_reserved": memory_reserved,
    "max_memory_cached": memory_reserved,
    "reset_peak_memory_stats": reset_peak_memory_stats,
    "reset_max_memory_allocated": reset_peak_memory_stats,
    "reset_max_memory_cached": reset_peak_memory_stats,
    "reset_accumulated_memory_stats": reset_peak_memory_stats,
    "memory_stats": memory_stats,
    "memory_summary": memory_summary,
    "empty_cache": empty_cache,
}
"""By their names in `torch.cuda` and in `torch.cuda.memory`."""
