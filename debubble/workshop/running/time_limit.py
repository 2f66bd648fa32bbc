"""A limit on how long a learner's code may run, so that an endless loop ends with a sentence."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

SECONDS = {"sim": 20.0, "cuda": 60.0}
"""By accelerator. A first Triton kernel is compiled on CUDA, which takes seconds."""
GRACE = 2.0
"""Seconds after which a process of a test's own is ended where nothing could be raised in it."""


class TimeLimitExceeded(BaseException):
    """Raised in the code that ran too long.

    Not an Exception: a learner's loop around `except Exception` must not swallow it.
    """

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} was still running after {seconds:g} s")
        self.seconds = seconds


def is_available() -> bool:
    """Whether code can be interrupted here: signals reach the main thread of a Unix process."""
    return hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raises TimeLimitExceeded in the block once it has run for `seconds`. 0 means no limit."""
    if not seconds or not is_available():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeLimitExceeded(what, seconds)

    others, _ = signal.getitimer(signal.ITIMER_REAL)
    if others and others < seconds:  # someone else's limit comes first: let it
        yield
        return
    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    # It repeats, since a bare `except:` in the loop would swallow the first.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if others:
            left = others - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))
