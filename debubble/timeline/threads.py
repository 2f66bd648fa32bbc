"""Which thread asked for something, as a recording names it."""

from __future__ import annotations

import threading

ANOTHER = "another thread"
"""One that Python did not start, such as those in which autograd runs a backward pass."""


def thread_name(recorder: int) -> str | None:
    """The running thread's name, or None if it is the one that records."""
    if threading.get_ident() == recorder:
        return None
    return name_of(threading.current_thread())


def name_of(thread: threading.Thread) -> str:
    """Python makes up a stand-in for a thread that it did not start."""
    return ANOTHER if isinstance(thread, threading._DummyThread) else thread.name
