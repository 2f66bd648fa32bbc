"""Limits the memory that the code under test may take, so that the learner's machine keeps
running."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOST_OF_MEMORY = 0.8
"""The share of the free memory that this process may take."""


def leave_memory_to_others() -> None:
    """Limits the memory of this process, so that its allocations fail when little memory would be
    left. Must not be called in a process that uses CUDA, which reserves far more addresses than it
    has memory for."""
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(OSError, ValueError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        taken = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = taken + int(free * MOST_OF_MEMORY)
        if most == resource.RLIM_INFINITY or limit < most:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
