"""Refuses loops around `event.query()`: the host waits in them, and no timeline shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

from debubble.accelerator import Accelerator
from debubble.contract.source_line import source_line

from .diagnosis import Diagnosis, KataFailure

MOST_ASKED = 16
"""The most times in a row that a query of one event or stream may answer "not yet", unless an event
is recorded in between."""
WHY = (
    "A loop that asks until the answer is yes is a wait that no timeline shows, and it keeps a "
    "core of the host busy. Ask once. Where you have to wait, `synchronize()` waits: the timeline "
    "shows it, and other threads can run. Where you need not, go on and ask again later."
)


@contextmanager
def polling_is_refused(accelerator: Accelerator) -> Iterator[None]:
    """Raises KataFailure in code that queries one event or one stream again and again until it is
    done.

    The exception comes from the query itself. The fixture `kata` runs each test of a kata in this
    block.
    """
    asked: list[object] = [None]
    times = 0

    def counted(query: Callable[[Any], bool]) -> Callable[[Any], bool]:
        @wraps(query)
        def ask(marker: Any) -> bool:
            nonlocal times
            is_done = query(marker)
            times = times + 1 if asked[0] is marker and not is_done else int(not is_done)
            asked[0] = marker
            if times > MOST_ASKED:
                times = 0
                raise KataFailure(_diagnosis())
            return is_done

        return ask

    def starts_anew(record: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(record)
        def note(*args: Any, **kwargs: Any) -> Any:
            nonlocal times
            times = 0
            return record(*args, **kwargs)

        return note

    event, stream = type(accelerator.event()), type(accelerator.current_stream())
    with ExitStack() as patches:
        for marker in (event, stream):
            patches.enter_context(mock.patch.object(marker, "query", counted(marker.query)))
        patches.enter_context(mock.patch.object(event, "record", starts_anew(event.record)))
        yield
    asked[0] = None


def _diagnosis() -> Diagnosis:
    line = source_line()
    return Diagnosis(
        expected="the host to ask once whether the device is done, or to wait by `synchronize()`",
        did=f'asks in a loop: {MOST_ASKED + 1} times in a row the answer was "not yet"',
        lines=((line, 1),) if line else (),
        why=WHY,
    )
