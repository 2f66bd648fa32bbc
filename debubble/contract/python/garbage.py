"""Delays garbage collection while destroying an object could break other work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Disables garbage collection in the block, a capture. Garbage may hold a graph in a reference
    cycle, with an error for example: if that graph is destroyed while another one is captured, CUDA
    aborts the capture."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
