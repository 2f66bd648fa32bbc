"""Garbage that has to wait: what it holds may not be given back at any time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Python collects no garbage in the block. A graph may lie there in a circle, with an error for
    example: if it is destroyed while another one is captured, CUDA breaks that capture off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
