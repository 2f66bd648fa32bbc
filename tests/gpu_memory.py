"""The memory of tests that need much of the GPU: they declare it, and run one at a time."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from debubble.cuda.memory_limit import limit_in_gib, limit_memory

GIB = 2**30
MOST_WHERE_SHARED = 10.0
"""The most GiB that a test takes of a shared GPU, that is, if DEBUBBLE_GPU_MEMORY is set."""


@contextmanager
def much_memory(gib: float, device: torch.device) -> Iterator[None]:
    """Reserves `gib` GiB of GPU memory for the block, besides what this process holds, or skips the
    test if there is less. Only one test of this user on this machine has such memory at a time.
    Frees it at the end, and restores this process's limit."""
    limited = limit_in_gib() is not None
    if limited and gib > MOST_WHERE_SHARED:
        pytest.skip(
            f"needs {gib:g} GiB of GPU memory: where DEBUBBLE_GPU_MEMORY is set, a test takes at "
            f"most {MOST_WHERE_SHARED:g}"
        )
    with one_at_a_time():
        give_back_what_is_unused()
        free, total = torch.cuda.mem_get_info(device)
        if free < gib * GIB:
            pytest.skip(
                f"needs {gib:g} GiB of GPU memory: {free / GIB:.1f} of {total / GIB:.1f} are free"
            )
        if limited:
            most = torch.cuda.memory_reserved(device) + gib * GIB
            torch.cuda.set_per_process_memory_fraction(min(1.0, most / total), device)
        try:
            yield
        finally:
            give_back_what_is_unused()
            limit_memory(device)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Holds this user's lock file during the block; waits first until no other process has it."""
    import fcntl  # missing on Windows, where nothing runs on CUDA

    file = os.open(lock_path(), os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        # Closing the file is not enough: a forked child has it open too.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def lock_path() -> Path:
    """Returns the path of this user's lock file. Each user has a file, since in a folder for all
    users one can't open another's file."""
    return Path(tempfile.gettempdir()) / f"debubble-gpu-memory-{os.getuid()}.lock"


def give_back_what_is_unused() -> None:
    # The last failure's traceback holds the tensors of its frames.
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    gc.collect()
    torch.cuda.empty_cache()
