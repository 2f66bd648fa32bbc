"""Finds the causes of a device's idle time in a trace, each with its line or operator."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..contract.source_line import SourceLine
from ..timeline.bubbles import SMALLEST_GAP, Bubble
from ..timeline.event import Event
from .host import DOING, OUTSIDE
from .reading import Trace

AFTER_WAIT = "the host waited for the device first"
COPY = "waiting for a copy"
STREAM = "waiting for another stream"
GAP = "between two kernels"
UNSEEN = "not known: graphs without their kernels"
OTHER = "no reason in the trace"
HOST_CAUSES = tuple(f"the host: {what}" for what in DOING)
LONGEST_HANDOVER = 100.0
"""The most microseconds between the end of one stream's work and the start of work on another that
waited for it, or from a launch to its work. It takes few; after a longer time the work had another
reason to be late."""
SLOW = 1.5
"""Work that is on its way from its launch for this many times the trace's usual time is late for
another reason."""
CAUSES = (AFTER_WAIT, *HOST_CAUSES, COPY, STREAM, GAP, OTHER, UNSEEN)
"""The causes of idle time. "The host" is what the host did instead of launching the next kernel, if
it had not waited for the device before."""


class Part(NamedTuple):
    """A stretch of idle time with one cause: microseconds of the timeline."""

    start: float
    end: float
    cause: str
    source: SourceLine | None
    operator: str | None

    def continues(self, other: Part) -> bool:
        """Returns True if this part follows the other at once, for the same reason."""
        return self[2:] == other[2:] and abs(self.start - other.end) < SMALLEST_GAP


class Finding(NamedTuple):
    """All idle time of one cause at one place: a line if the trace has stacks, or an operator."""

    cause: str
    source: SourceLine | None
    operator: str | None
    microseconds: float
    times: int

    @property
    def place(self) -> str:
        """The line and the operator in it, as far as the trace has them."""
        operator = f" at {self.operator}" if self.operator else ""
        return f"{self.source}{operator}" if self.source else self.operator or "no place known"


@dataclass(frozen=True)
class Findings:
    """Idle time of one stretch of a trace. `span`, `busy` and the causes' times are
    microseconds."""

    span: float
    busy: float
    causes: dict[str, float]
    places: list[Finding]

    @property
    def idle(self) -> float:
        """Microseconds in which the device is known to be idle."""
        return sum(time for cause, time in self.causes.items() if cause != UNSEEN)


def find(trace: Trace, start: float | None = None, end: float | None = None) -> Findings:
    """Returns the idle time of a trace's device between two times of its timeline, by default from
    its first work to its last. Places are in the order of their time, the longest first."""
    timeline = trace.timeline
    work = [event for event in timeline.events if event.on_device]
    first = min((event.start for event in work), default=0.0)
    last = max((event.end for event in work), default=0.0)
    start, end = max(first, start or first), last if end is None else min(last, end)
    causes = dict.fromkeys(CAUSES, 0.0)
    places: dict[tuple[str, SourceLine | None, str | None], list[float]] = defaultdict(list)
    previous: Part | None = None
    for part in parts(trace):
        length = min(part.end, end) - max(part.start, start)
        if length > 0:
            causes[part.cause] += length
            times = places[part.cause, part.source, part.operator]
            if previous is not None and part.continues(previous):
                times[-1] += length
            else:
                times.append(length)
            previous = part
    span = max(0.0, end - start)
    found = [
        Finding(cause, source, operator, sum(times), len(times))
        for (cause, source, operator), times in places.items()
    ]
    found.sort(key=lambda finding: -finding.microseconds)
    idle = sum(causes.values())
    return Findings(span, span - idle, {c: t for c, t in causes.items() if t}, found)


def parts(trace: Trace) -> Iterator[Part]:
    """Yields all idle time of a trace's device in order, in parts of one cause each."""
    events = trace.timeline.events
    unseen, waits = graphs_without_kernels(trace), waits_of(events)
    ends = Streams([event for event in events if event.on_device])
    on_its_way = min(LONGEST_HANDOVER, SLOW * usual_latency(events))
    for bubble in trace.timeline.bubbles():
        for part in parts_of(bubble, trace, waits, ends, on_its_way):
            yield from without(part, unseen)


def parts_of(
    bubble: Bubble, trace: Trace, waits: dict[int, float], ends: Streams, on_its_way: float
) -> Iterator[Part]:
    start, end, held = bubble.start, bubble.end, bubble.held_by
    number = bubble.next_event.launched_by
    launch = None if number is None else trace.timeline.events[number]
    operator = (launch and launch.operator) or bubble.next_event.name
    if bubble.cause == "waiting for a copy":
        yield Part(start, end, COPY, bubble.source, held.name if held else None)
    elif bubble.cause == "waiting for a kernel":
        yield Part(start, end, GAP, None, None)
    elif bubble.cause == "other" and not (launch and end - launch.end <= on_its_way):
        crossed = end - start <= LONGEST_HANDOVER and ends.before(start) != bubble.next_event.lane
        yield Part(start, end, STREAM if crossed else OTHER, bubble.source, operator)
    elif number is None or launch is None:
        yield Part(start, end, HOST_CAUSES[OUTSIDE], bubble.source, operator)
    else:
        if held is not None:
            start = min(end, start + waits[id(held)])
            yield Part(bubble.start, start, AFTER_WAIT, held.source, held.operator or held.name)
        launched = min(max(start, launch.end), end)
        yield from parts_of_host(trace, trace.row_of[number], start, launched, end, operator)


def parts_of_host(
    trace: Trace, row: int, start: float, launched: float, end: float, operator: str
) -> Iterator[Part]:
    """Yields idle time by what the thread of the launch `row` did in it until it had launched. The
    time after, on the way to the device, counts as launching."""
    host, origin = trace.host, trace.origin
    times = host.times(int(host.tracks[row]), start + origin, launched + origin)
    if end > launched:
        call = host.of_call[row]
        times[call] = times.get(call, 0.0) + end - launched
    for number, length in times.items():
        kind, line, name = host.places[number]
        if line is None and name is None:
            name = f"before {operator}"
        yield Part(start, start + length, HOST_CAUSES[kind], line, name)
        start += length


def calls_before(events: list[Event]) -> dict[int, int]:
    """Returns, for each wait that follows a call of its own operator, that call: both by index. The
    call of a copy may wait as well as the wait after it."""
    previous: dict[str | None, int] = {}
    found: dict[int, int] = {}
    for index, event in enumerate(events):
        if not event.on_device:
            before = previous.get(event.thread)
            if event.kind == "sync" and event.operator and before is not None:
                call = events[before]
                if (call.source, call.operator) == (event.source, event.operator):
                    found[index] = before
            previous[event.thread] = index
    return found


def waits_of(events: list[Event]) -> dict[int, float]:
    """Returns the microseconds that the host lost in each wait, by the id of its event: with the
    call that it follows. Without the wait, the host would be earlier by that time and no more."""
    before = calls_before(events)
    return {
        id(event): event.end - events[before.get(index, index)].start
        for index, event in enumerate(events)
        if event.kind == "sync"
    }


def usual_latency(events: list[Event]) -> float:
    """Returns the microseconds from a launch to its work on a stream that is idle: the median. The
    first work of a stream may have waited for what ran before the trace."""
    last_of: dict[str, float] = {}
    found = []
    for event in sorted((e for e in events if e.on_device), key=lambda e: e.start):
        if event.launched_by is not None:
            launched = events[event.launched_by].start
            if last_of.get(event.lane, launched) < launched:
                found.append(event.start - launched)
        last_of[event.lane] = event.end
    return max(0.0, statistics.median(found)) if found else 0.0


def without(part: Part, unseen: list[tuple[float, float]]) -> Iterator[Part]:
    """Yields a part in pieces: those in which a graph may have run have no known cause."""
    first = max(0, bisect_right(unseen, (part.start, part.start)) - 1)
    for start, end in unseen[first:]:
        if start >= part.end:
            break
        if end > part.start:
            start, end = max(start, part.start), min(end, part.end)
            if start > part.start:
                yield part._replace(end=start)
            yield part._replace(start=start, end=end, cause=UNSEEN)
            part = part._replace(start=end)
    if part.end > part.start:
        yield part


def bare_graphs(events: list[Event]) -> list[Event]:
    """Returns the launches of graphs whose kernels the trace lacks."""
    with_work = {event.launched_by for event in events if event.on_device}
    launches = ((at, event) for at, event in enumerate(events) if event.kind == "graph_launch")
    return [event for at, event in launches if at not in with_work]


def graphs_without_kernels(trace: Trace) -> list[tuple[float, float]]:
    """Returns the stretches in which a graph may run whose kernels the trace lacks: from its launch
    to the next wait of the host or the next work on the device, whichever is later seen to end
    it."""
    events = trace.timeline.events
    syncs = [event.end for event in events if event.kind == "sync"]
    edges = sorted(syncs + [event.start for event in events if event.on_device])
    stretches: list[tuple[float, float]] = []
    for launch in bare_graphs(events):
        at = bisect_right(edges, launch.start)
        end = edges[at] if at < len(edges) else trace.timeline.length
        start = max(launch.start, stretches[-1][1]) if stretches else launch.start
        if end > start:
            stretches.append((start, end))
    return stretches


class Streams:
    """The lane of the last device event that ended before a time."""

    def __init__(self, events: list[Event]) -> None:
        by_end = sorted(events, key=lambda event: (event.end, event.start))
        self._ends = [event.end for event in by_end]
        self._lanes = [event.lane for event in by_end]

    def before(self, time: float) -> str | None:
        at = bisect_right(self._ends, time + 0.01) - 1
        return self._lanes[at] if at >= 0 else None
