"""Measures, in real time, what a program's own Python takes between two calls of sim."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from debubble.contract.source_line import SourceLine, source_line

SHORTEST_US = 100.0
"""Shorter times between two calls are part of the calls' own host times, which were measured inside
running models."""
SHORTEST_WAIT_US = 1000.0
"""Shorter waits may be those of a thread that had no processor for a moment."""
SHORTEST_FINDING_US = 1000.0
"""Shorter times are no cause of a bubble: sim runs on the same processor, and outside of its calls
some of its work remains, such as returning memory to the system."""
SAMPLE_SECONDS = 0.005


class Spent(NamedTuple):
    """The time of one thread between two calls of sim, in microseconds."""

    python_us: float
    """Processor time."""
    waits_us: float
    """The time in which the thread slept, or waited for a file or a queue."""
    line: SourceLine | None
    """The line that ran most of the time, or None if the time was too short to look."""


def _times_slept() -> int:
    """Returns how often this thread has given its processor away, to sleep or to wait. A thread
    that lost its processor to another one did not wait by itself."""
    if OF_A_THREAD is None:
        return time.perf_counter_ns()  # Not known here: each time counts as one that slept.
    return resource.getrusage(OF_A_THREAD).ru_nvcsw


OF_A_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)


class OwnPython:
    """Sim calls `ends` when it is entered and `begins` when it returns, so that its own work does
    not count; calls inside sim are ignored. `spent` then gets each time that was long enough.

    While a `with` block of it runs, a thread looks every 5 ms at the lines that run.
    """

    def __init__(
        self,
        spent: Callable[[Spent], None],
        processor: Callable[[], int] = time.thread_time_ns,
        wall: Callable[[], int] = time.perf_counter_ns,
        shortest_us: float = SHORTEST_US,
        slept: Callable[[], int] = _times_slept,
    ) -> None:
        """Calls `spent` for each time of at least `shortest_us`."""
        self._shortest, self._slept = shortest_us, slept
        self._spent, self._processor, self._wall = spent, processor, wall
        self._local = _Thread()
        self._seen: dict[int, Counter[SourceLine]] = {}
        """How often each line was seen, by the identifier of a thread that is outside of sim."""
        self._calls = 0
        self._done = threading.Event()

    def __enter__(self) -> OwnPython:
        threading.Thread(target=self._look, name="debubble: lines", daemon=True).start()
        self.begins()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()

    def ends(self) -> None:
        thread = self._local
        thread.depth += 1
        if thread.depth > 1:
            return
        self._calls += 1
        if thread.since is None:
            return
        processor, wall = self._processor() - thread.since[0], self._wall() - thread.since[1]
        lines = self._seen.pop(threading.get_ident(), None)
        python_us = processor / 1e3
        waits_us = (wall - processor) / 1e3
        slept = self._slept() != thread.slept
        if waits_us < SHORTEST_WAIT_US or self._calls != thread.calls + 1 or not slept:
            waits_us = 0.0  # Another thread's calls, such as a backward pass, are no wait.
        if python_us >= self._shortest or waits_us:
            line = lines.most_common(1)[0][0] if lines else None
            self._spent(Spent(python_us if python_us >= self._shortest else 0.0, waits_us, line))

    def begins(self) -> None:
        thread = self._local
        thread.depth = max(0, thread.depth - 1)
        if thread.depth == 0:
            thread.calls, thread.slept = self._calls, self._slept()
            self._seen[threading.get_ident()] = Counter()
            thread.since = self._processor(), self._wall()

    def _look(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            for thread, seen in list(self._seen.items()):
                if thread in sys._current_frames() and (line := source_line(thread)) is not None:
                    seen[line] += 1


class _Thread(threading.local):
    depth = 0
    calls = 0
    slept = 0
    since: tuple[int, int] | None = None
    """The processor's and the wall's nanoseconds at which the thread last left sim."""
