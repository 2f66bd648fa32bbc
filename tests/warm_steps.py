"""A warm step compiles nothing and asks the driver for no memory, whatever its size."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import debubble
from debubble.sim.memory import caching

SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33)
"""Sizes at 1, and around multiples of 16 and powers of two."""


@contextmanager
def expecting_nothing_new() -> Iterator[None]:
    """Refuses compilations in the block, and asserts at its end that no pool of memory has grown.
    Call `caching.DEVICE.begin(int)` before the warm-up, so that the pool counts its blocks."""
    gc.collect()
    grown: list[tuple[str, int]] = []
    caching.DEVICE.grew = caching.PINNED.grew = lambda *what: grown.append(what)
    try:
        with debubble.no_compiles():
            yield
    finally:
        caching.DEVICE.grew = caching.PINNED.grew = None
    assert grown == []
