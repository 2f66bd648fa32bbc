"""record: records everything that happens on the accelerator inside a block, as a Timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from ..accelerator import Accelerator, current
from ..contract.python.warned_at import at_the_users_line
from ..contract.recorded import Also, HostTimes, checked_also, checked_host
from ..contract.steps import noting_steps
from ..timeline import Timeline
from ..timeline.event import Step


@contextmanager
def record(
    accelerator: Accelerator | None = None,
    most_calls: int | None = None,
    host: HostTimes | None = None,
    also: Iterable[Also] = (),
) -> Iterator[Timeline]:
    """Yields a Timeline that is filled when the block ends and the device is done.

    Waiting for the device before and after the block is not part of the recording. After
    `most_calls` calls of the host the recording is full, and its timeline is `cut_off`.

    On sim, `host` says what the program's own Python takes between its calls: nothing if
    "modelled", so that each run has the same times, or what it takes on this machine if "measured".
    The default is that of the environment variable DEBUBBLE_HOST, or else "modelled".

    `also` adds events: "compile" for each compilation, with what was new about its key, "alloc" for
    each call of the driver's allocators of device and pinned memory, and "host" for the program's
    own Python, as `host="measured"` does. On sim compilations are counted by their keys, and
    allocations by the rules of PyTorch's allocator, from the first recording that asks for them.

    Raises ValueError for another value of `host` or `also`, and RuntimeError inside another
    recording, because a recording sees the whole process.
    """
    accelerator, host, asked = accelerator or current(), checked_host(host), checked_also(also)
    if "host" in asked:
        host = host or "measured"
    timeline = Timeline(
        accelerator=accelerator.name,
        description=accelerator.description,
        modelled=accelerator.modelled,
    )
    if not ONE_AT_A_TIME.acquire(blocking=False):
        raise RuntimeError("a recording is running in this process: let it end before the next")
    try:
        with at_the_users_line(), accelerator.recording(timeline, most_calls, host, asked) as clock:
            _clocks.append(clock)

            def note(name: str, start: float, end: float) -> None:
                timeline.steps.append(Step(name, start, end))

            try:
                with noting_steps(note, clock):
                    yield timeline
            finally:
                _clocks.clear()
    finally:
        ONE_AT_A_TIME.release()


def elapsed() -> float | None:
    """Returns the microseconds since the running recording began, by the clock of its host events,
    or None without a recording."""
    return _clocks[0]() if _clocks else None


_clocks: list[Callable[[], float]] = []
"""The clock of the running recording, if there is one."""


ONE_AT_A_TIME = Lock()
"""The lock that the running recording holds: it sees all threads of the process, so there is only
one."""
