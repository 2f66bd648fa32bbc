"""Names the thread that made a call, as a recording shows it."""

from __future__ import annotations

import threading

ANOTHER = "another thread"
"""The name of a thread that Python did not start, such as one in which autograd runs a backward
pass."""


def name_of(thread: threading.Thread) -> str:
    """Returns the thread's name, or ANOTHER for a thread that Python did not start: `threading` has
    only a placeholder for it."""
    return ANOTHER if isinstance(thread, threading._DummyThread) else thread.name
