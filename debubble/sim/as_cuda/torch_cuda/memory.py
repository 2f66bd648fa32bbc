"""`torch.cuda.memory_allocated` and related functions: how many bytes tensors on sim occupy.

Counting starts when "cuda" begins to mean sim, and rounds sizes as PyTorch's allocator does. The
allocator itself isn't simulated: its reserved memory is taken to be the largest number of bytes
allocated since its cache was emptied, rounded up to whole segments.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...memory import caching
from ...memory.blocks import IN_USE
from .properties import properties_of

SEGMENT = 2 << 20
"""The size of the allocator's smallest segment, in bytes."""
CONTEXT = SEGMENT
"""The bytes of device memory that CUDA's context occupies, which are never free."""


def memory_allocated(device: Any = None) -> int:
    return IN_USE.now


def max_memory_allocated(device: Any = None) -> int:
    return IN_USE.most


def memory_reserved(device: Any = None) -> int:
    return -(-IN_USE.cached // SEGMENT) * SEGMENT


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
    counts = {"allocation.all.allocated": IN_USE.allocations, "num_ooms": 0}
    return {**stats, **counts, "num_device_alloc": caching.DEVICE.mallocs}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    return "\n".join(f"{name}: {value:,}" for name, value in memory_stats().items())


def mem_get_info(gpu: str) -> tuple[int, int]:
    """Returns the free and the total bytes of device memory. The total is the calibrated GPU's, or
    what this machine can hold if that is less."""
    total = properties_of(gpu).total_memory
    return total - memory_reserved() - CONTEXT, total


def what_fits() -> int:
    """Returns how many bytes of device memory this machine can hold: half of its available memory.

    Sim keeps a second copy of memory that is written while a copy is in flight or a graph is
    captured."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(int(available.split()[1]) << 10)
    for folder, most, now in CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int((folder / most).read_text()) - int((folder / now).read_text()))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        found.append(limit)
    return max(min(found), 0) // 2


CGROUP = Path("/sys/fs/cgroup")
CGROUPS = (
    (CGROUP, "memory.max", "memory.current"),
    (CGROUP / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""The files in which Linux reports a container's memory limit and use, for cgroup v2 and v1."""


def empty_cache() -> None:
    IN_USE.cached = IN_USE.now
    caching.DEVICE.empty()


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
"""The replacements for functions of `torch.cuda` and `torch.cuda.memory`, by name."""
