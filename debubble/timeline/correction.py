"""Corrects a step that was recorded under a profiler: removes the load before it, and shortens its
idle time to the measured length.

A profiler slows down each call of the host and leaves the length of kernels and copies as it is. So
the device's events of a recorded step are right, and only the stretches in which the device waited
are too long. They are all shortened by one factor, so that the whole step takes the time that was
measured without a recorder. The host's calls move with them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from .data import Recorded
from .event import Event, Step

LOAD = "sleep"
"""The name of the kernel that runs before a step in place of the work of earlier steps."""


def as_measured(timeline: Recorded, device_us: float) -> Recorded:
    """Returns the step after the load of `timeline`, with idle time scaled so that the device takes
    `device_us` microseconds, as measured without a profiler. The description says by how much.

    Raises ValueError if the device alone was busy for longer than that, or did nothing after the
    load.
    """
    step = without_load(timeline)
    busy = union((event.start, event.end) for event in step.events if event.on_device)
    if not busy:
        raise ValueError("the recording has no device work after its load")
    work = sum(end - start for start, end in busy)
    idle = busy[-1][1] - work
    if device_us < work:
        raise ValueError(
            f"the step was measured at {device_us:.1f} µs, and in the recording its kernels and "
            f"copies alone take {work:.1f} µs: they are not of one step"
        )
    scale = (device_us - work) / idle if idle > 0 else 1.0
    clock = Clock(busy, scale)
    events = [moved(event, clock) for event in step.events]
    note = f"idle time × {scale:.2g}, as it is without a profiler"
    steps = [Step(one.name, clock(one.start), clock(one.end)) for one in step.steps]
    description = f"{timeline.description}, {note}"
    return replace(step, events=events, steps=steps, description=description)


def without_load(timeline: Recorded) -> Recorded:
    """Returns the timeline from the end of the sleep kernels at its beginning on, or all of it if
    there are none."""
    device = sorted((e for e in timeline.events if e.on_device), key=lambda event: event.start)
    end = 0.0
    for event in device:
        if event.name != LOAD:
            break
        end = event.end
    return timeline.since(end) if end else timeline


class Clock:
    """A map from a moment of the recorded step to its moment in the corrected step, in which each
    stretch outside `busy` is `scale` times as long."""

    def __init__(self, busy: Sequence[tuple[float, float]], scale: float) -> None:
        self.scale = scale
        self.edges = [0.0, *(edge for stretch in busy for edge in stretch)]
        lengths = [
            after - before for before, after in zip(self.edges, self.edges[1:], strict=False)
        ]
        # Idle and busy stretches alternate, beginning with an idle one.
        scaled = (length if turn % 2 else length * scale for turn, length in enumerate(lengths))
        self.places = [0.0, *accumulate(scaled)]

    def __call__(self, moment: float) -> float:
        turn = bisect_right(self.edges, moment) - 1
        idle = turn % 2 == 0
        return self.places[turn] + (moment - self.edges[turn]) * (self.scale if idle else 1.0)


def moved(event: Event, clock: Clock) -> Event:
    start = clock(event.start)
    return replace(event, start=start, duration=clock(event.end) - start)


def union(stretches: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the time in `stretches`, pairs of start and end, as stretches in order: those that
    overlap or touch are joined."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
