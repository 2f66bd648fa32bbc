"""Stops code under test that has computed for too long, or waited for too long.

The limit counts the time in which a core worked for the code: a busy machine makes the learner wait
longer but doesn't change this time. A wait for a lock takes no CPU time, so the time in which the
code needed no core has a limit of its own.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

SECONDS = {"sim": 20.0, "cuda": 60.0}
"""The default time limit of a test in seconds of CPU time, by accelerator. CUDA compiles the first
Triton kernel, which takes seconds."""
GRACE = 2.0
"""Seconds of computing beyond the time limit after which a test's own process is ended, because no
exception could be raised in it."""
STANDING = 3.0
"""The multiple of its time limit for which code may stand still without using a core: it may be
waiting for another process's work."""
A_MOMENT = 1.0
"""Seconds between two looks at code that has reached its limit."""


class TimeLimitExceeded(BaseException):
    """Raised in code that computed, or stood still, for too long.

    Derives from BaseException so that a learner's loop around `except Exception` doesn't swallow
    it.
    """

    def __init__(self, what: str, seconds: float, stood_still: bool = False) -> None:
        super().__init__(f"{what} {still_there(seconds, stood_still)}")
        self.seconds = seconds
        self.stood_still = stood_still


def still_there(seconds: float, stood_still: bool) -> str:
    """Returns words that complete a sentence about code which reached its limit: `was still running
    after 20 s of CPU time`."""
    if stood_still:
        return f"was still waiting after {seconds:g} s"
    return f"was still running after {seconds:g} s of CPU time"


def far_limit(seconds: float) -> float:
    """Returns the wall-clock seconds after which a process is ended that stands still where no
    signal reaches it, such as in a wait in C. `seconds` is the limit of its test."""
    return 60.0 + 10.0 * seconds


def can_interrupt() -> bool:
    """Returns True if code can be interrupted here: signals reach only the main thread of a Unix
    process."""
    return hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raises TimeLimitExceeded in the block once this process has computed for `seconds`, or its
    main thread has stood still for STANDING times as long. There is no limit if `seconds` is 0 or
    code can't be interrupted here."""
    if not seconds or not can_interrupt():
        yield
        return
    use = _Use()

    def stop(signum: int, frame: FrameType | None) -> None:
        use.look(seconds)
        if use.computed >= seconds:
            raise TimeLimitExceeded(what, seconds)
        if use.stood_still >= STANDING * seconds:
            raise TimeLimitExceeded(what, STANDING * seconds, stood_still=True)

    others, _ = signal.getitimer(signal.ITIMER_REAL)
    if others and others < seconds:  # another limit ends earlier: let it
        yield
        return
    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    # The timer repeats, because a bare `except:` in the loop would swallow the first exception.
    signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds, A_MOMENT))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if others:
            left = others - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))


class _Use:
    """The seconds that this process has computed and stood still, from the construction to the last
    call of `look`."""

    def __init__(self) -> None:
        self.computed = 0.0
        self.stood_still = 0.0
        self._last = self._now()

    def look(self, longest: float) -> None:
        """Adds the time since the last call. `longest` is the expected number of seconds between
        two calls: if more have passed, the process was suspended, and its pending signal arrived
        once."""
        last, self._last = self._last, self._now()
        passed, computed, active = (now - then for now, then in zip(self._last, last, strict=True))
        self.computed += computed
        self.stood_still += max(0.0, min(passed, longest) - max(computed, active))

    @staticmethod
    def _now() -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), _active()


def _active() -> float:
    """Returns the seconds in which the main thread computed or waited for a core. Only Linux counts
    such waits; elsewhere it is the CPU time alone."""
    try:
        computed, waited, _ = Path("/proc/self/schedstat").read_text().split()
    except (OSError, ValueError):
        return time.process_time()
    return (int(computed) + int(waited)) / 1e9
