"""Recordings of work in flight on sim, and what is said of a race in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import debubble
from debubble.timeline import Hazard


@contextmanager
def in_flight(accelerator, milliseconds: float = 5.0) -> Iterator[debubble.Timeline]:
    """Records the block's work, which is queued behind a sleep, and then waits for that work."""
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(milliseconds)
        yield timeline
        accelerator.synchronize()


@contextmanager
def held_up(accelerator, stream, milliseconds: float = 5.0) -> Iterator[None]:
    """Queues the block's work on a stream that first waits for a sleep of the current one."""
    accelerator.sleep(milliseconds)
    stream.wait_stream(accelerator.current_stream())
    with stream:
        yield


def kinds(timeline: debubble.Timeline) -> list[str]:
    return [hazard.kind for hazard in timeline.hazards]


def expect_race(
    timeline: debubble.Timeline, kind: str, first: str = "", second: str = ""
) -> Hazard:
    """Checks that the timeline has one hazard, of this kind, whose two lines have these texts.
    Returns the hazard."""
    (hazard,) = timeline.hazards
    assert hazard.kind == kind
    for side, text in ((hazard.first, first), (hazard.second, second)):
        assert not text or (side is not None and text in side.text)
    return hazard
