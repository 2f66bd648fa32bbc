"""Which thread asked for something, as a recording names it."""

from __future__ import annotations

import threading

ANOTHER = "another thread"
"""One that Python did not start, such as those in which autograd runs a backward pass."""


def name_of(thread: threading.Thread) -> str:
    """Python makes up a stand-in for a thread that it did not start."""
    return ANOTHER if isinstance(thread, threading._DummyThread) else thread.name
