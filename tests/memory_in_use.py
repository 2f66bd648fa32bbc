"""Measures the memory of this process, to check that it stops growing."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

import pytest

SPARE_BYTES = 2 << 20
"""The bytes that an allocator may take or release at any time."""


def resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def expect_flat(call: Callable[[int], object], count: int) -> None:
    """Calls `call(number)` `2 * count` times, and checks that the second half adds no memory to
    this process: at most 1 % of what it holds, or SPARE_BYTES if that is more. Skips the test if
    this isn't Linux."""
    if sys.platform != "linux":
        pytest.skip("only Linux says how much memory a process holds")
    for number in range(count):
        call(number)
    before = resident_bytes()
    for number in range(count, 2 * count):
        call(number)
    grown = resident_bytes() - before
    assert grown < max(before // 100, SPARE_BYTES), f"{count} more calls took {grown:,} bytes"
