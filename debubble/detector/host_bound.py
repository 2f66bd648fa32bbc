"""Finds what the host does while the device has no work: compilations, allocations, and bubbles
that no wait explains."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..contract.recorded import FIRST, Also
from ..contract.source_line import SourceLine
from ..timeline.data import TimelineData
from ..timeline.event import HOST_LANE, Event
from ..timeline.holds import HostKind
from .findings import Finding
from .loops import Steps

SMALLEST_SHARE = 0.05
"""The part of the steps' time that one cause has to leave the device idle, to be a bubble."""
SMALLEST_US = 50.0
"""The microseconds of a step that it has to leave the device idle."""
QUEUED = 1000
"""The launches before a long one whose kernels have not started: then the queue was full."""
Key = tuple[HostKind, SourceLine | None, str | None, bool, str | None]


class Part(NamedTuple):
    """A stretch of idle device time, in microseconds, and what the host did in it."""

    kind: HostKind
    source: SourceLine | None
    thread: str | None
    start: float
    duration: float


def find_host_bound(
    timeline: TimelineData, also: frozenset[Also], steps: Steps | None
) -> list[Finding]:
    """Returns the findings of the kinds that `also` names, the costliest first. Leaves out what
    happened before the steps, and in a run without a loop a kernel's first compilation."""
    steps = steps or Steps(skip=0)
    idle = _Idle(timeline)
    found = [*_compilations(timeline, steps, idle)] if "compile" in also else []
    if "alloc" in also:
        found += _allocations(timeline, steps, idle)
    if "host" in also:
        found += _bubbles(timeline, steps) + _full_queue(timeline)
    return found


class _Idle:
    """The idle device time of a recording."""

    def __init__(self, timeline: TimelineData) -> None:
        self._bubbles = timeline.bubbles(ignore_sleep=True)
        self._ends = [bubble.end for bubble in self._bubbles]

    def beside(self, event: Event) -> float:
        """Returns the microseconds of a host event in which the device had no work."""
        idle = 0.0
        for bubble in self._bubbles[bisect_left(self._ends, event.start) :]:
            if bubble.start >= event.end:
                break
            idle += min(bubble.end, event.end) - max(bubble.start, event.start)
        return idle


def _compilations(timeline: TimelineData, steps: Steps, idle: _Idle) -> Iterator[Finding]:
    events = [event for event in timeline.events if event.kind == "compile"]
    for event in events:
        if event.allowed or not _is_warm_up(event, steps):
            key = f"{event.name}: {event.call}"
            yield _finding("compile", [event], idle.beside(event), key)


def _is_warm_up(event: Event, steps: Steps) -> bool:
    """Returns True for a compilation before the steps, or in the first pass of a loop around them,
    and for the first one of a kernel in a run without a loop."""
    if steps.until is None:
        return event.call == FIRST
    return event.start < steps.until or (event.call == FIRST and _in_first_pass(event, steps))


def _in_first_pass(event: Event, steps: Steps) -> bool:
    """Returns True if the event lies in the first `skip` passes of the outermost loop."""
    outermost = min((passes for passes in steps.every if passes), key=lambda one: one[0])
    return bisect_left(outermost, event.start) <= steps.skip


def _allocations(timeline: TimelineData, steps: Steps, idle: _Idle) -> list[Finding]:
    """Returns the lines at which the driver allocates in the steps. What a line allocates in the
    first step alone is warm-up: the tensors of the pass before are still there."""
    at: defaultdict[tuple, list[Event]] = defaultdict(list)
    since, settled = steps.until or 0.0, _second(steps)
    for event in timeline.events:
        if event.kind == "alloc" and event.start >= since:
            at[event.name, event.source, event.thread].append(event)
    return [
        _finding(ALLOCATING[name], events, sum(map(idle.beside, events)))
        for (name, _, _), events in at.items()
        if name in ALLOCATING and events[-1].start >= settled
    ]


def _second(steps: Steps) -> float:
    """Returns the time at which the second step begins, or 0 in a run without a loop."""
    passes = next((passes for passes in steps.every if steps.until in passes), [])
    return next((time for time in passes if time > (steps.until or 0.0)), steps.until or 0.0)


ALLOCATING: dict[str, HostKind] = {
    "cudaMalloc": "alloc",
    "cuMemCreate": "alloc",
    "cudaHostAlloc": "pinned_alloc",
}
"""The functions of the driver that allocate, and what they allocate."""


def _finding(
    kind: HostKind, events: Sequence[Event], idle: float = 0.0, key: str | None = None
) -> Finding:
    first = events[0]
    held = [event.duration for event in events]
    return Finding(
        kind,
        first.source,
        first.thread,
        first.allowed,
        count=len(events),
        held=sum(held),
        worst=max(held),
        idle=idle,
        key=key,
    )


def _bubbles(timeline: TimelineData, steps: Steps) -> list[Finding]:
    """Returns the bubbles of the steps that are large enough: by line for the program's own Python,
    and for launches the lines of those that are a large part of them, if all launches together are
    large enough."""
    since = steps.until or 0.0
    until = steps.ended or max((event.end for event in timeline.events), default=0.0)
    passes = max(1, _passes(steps))
    parts = [part for part in _parts(timeline) if since <= part.start < until]
    causes: defaultdict[tuple, list[Part]] = defaultdict(list)
    for part in parts:
        line = None if part.kind == "launches" else part.source
        causes[part.kind, line, part.thread].append(part)
    found: list[Finding] = []
    for cause in causes.values():
        idle = sum(part.duration for part in cause)
        if timeline.modelled and cause[0].kind != "launches" and len(cause) < passes / 2:
            continue  # This machine stops now and then.
        if idle >= SMALLEST_SHARE * (until - since) and idle >= SMALLEST_US * passes:
            found += _by_line(cause, idle)
    return sorted(found, key=lambda one: -one.idle)


def _by_line(cause: Sequence[Part], idle: float) -> Iterator[Finding]:
    lines: defaultdict[SourceLine | None, list[Part]] = defaultdict(list)
    for part in cause:
        lines[part.source].append(part)
    for source, parts in lines.items():
        took = [part.duration for part in parts]
        if sum(took) >= SMALLEST_SHARE * idle:
            one = Finding(parts[0].kind, source, parts[0].thread, allowed=False)
            yield replace(one, count=len(took), held=sum(took), worst=max(took), idle=sum(took))


def _passes(steps: Steps) -> int:
    if steps.line is None or steps.until is None:
        return 1
    after = [len(passes) - bisect_left(passes, steps.until) for passes in steps.every]
    return min((n for n in after if n), default=1)


def _parts(timeline: TimelineData) -> Iterator[Part]:
    """Yields the idle device time in which a launch was late, by what the host did meanwhile.
    Waits, compilations and allocations are left out: they are findings of their own."""
    on_host: defaultdict[str | None, list[Event]] = defaultdict(list)
    for event in sorted(timeline.events, key=lambda event: event.start):
        if event.lane == HOST_LANE and event.kind not in ("launch", "graph_launch"):
            on_host[event.thread].append(event)
    starts = {thread: [event.start for event in events] for thread, events in on_host.items()}
    for bubble in timeline.bubbles(ignore_sleep=True):
        launch = timeline.launch_of(bubble.next_event)
        if bubble.cause != "waiting for the host" or launch is None:
            continue
        rest = bubble.duration
        events = on_host[launch.thread]
        at = bisect_left(starts.get(launch.thread, []), bubble.end)
        for event in reversed(events[:at]):
            if event.end <= bubble.start:
                break
            shared = min(event.end, bubble.end) - max(event.start, bubble.start)
            rest -= shared
            if event.kind == "python":
                kind: HostKind = "python_waits" if "waits" in event.name else "python"
                yield Part(kind, event.source, event.thread, max(event.start, bubble.start), shared)
        if rest > 0:
            yield Part("launches", launch.source, launch.thread, bubble.start, rest)


def _full_queue(timeline: TimelineData) -> list[Finding]:
    """Returns the lines whose launches waited for room in the launch queue: long launches, before
    which many kernels had not started."""
    launches = [event for event in timeline.events if event.kind == "launch"]
    if len(launches) <= QUEUED:
        return []
    began: dict[int, float] = {}
    for event in timeline.events:
        if event.launched_by is not None and event.kind == "kernel":
            began.setdefault(event.launched_by, event.start)
    started = sorted(began.values())
    ends = sorted(timeline.events[launch].end for launch in began)
    at: defaultdict[tuple, list[Event]] = defaultdict(list)
    for event in launches:
        queued = bisect_left(ends, event.start) - bisect_left(started, event.start)
        if event.duration >= SMALLEST_US and queued >= QUEUED:
            at[event.source, event.thread].append(event)
    return [_finding("full_queue", events) for events in at.values()]
