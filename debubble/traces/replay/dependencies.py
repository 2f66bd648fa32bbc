"""Reads from a trace's times what waited for what."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from ...timeline.bubbles import CLOCK_SLACK, LAUNCH_GAP
from ...timeline.event import Event
from ..findings import usual_latency
from .graph import Edge, Graph, in_order

OWN_THREAD = 20.0
"""Microseconds between two calls of a thread in which it waited for no other thread."""
SYNC_ITSELF = 2.0
"""Microseconds that a call takes that could wait and does not."""
MOST_LAUNCHED_LATER = 100
"""The most pieces of work that end within a wait, though other threads launched them after it
began."""


def graph_of(events: list[Event]) -> Graph:
    """Returns the dependencies between the events of a trace."""
    builder = _Builder(events)
    builder.chain_calls()
    builder.chain_work()
    builder.add_waits()
    return Graph(builder.edges, in_order(builder.edges), builder.waiting, builder.anchored)


class _Builder:
    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.root = 2 * len(events)
        self.edges: list[list[Edge]] = [[] for _ in range(self.root + 1)]
        self.waiting: set[int] = set()
        self.anchored: dict[int, int] = {}
        starts = sorted(range(len(events)), key=lambda index: events[index].start)
        self.calls = [index for index in starts if not events[index].on_device]
        self.call_starts = [events[index].start for index in self.calls]
        self.work = [index for index in starts if events[index].on_device]
        self.by_end = sorted(self.work, key=lambda index: events[index].end)
        self.ends = [events[index].end for index in self.by_end]
        copies = {events[index].launched_by for index in self.work if events[index].kind == "copy"}
        launches = [
            events[call].duration
            for call in self.calls
            if events[call].kind == "launch" and call not in copies
        ]
        self.usual_launch = statistics.median(launches) if launches else 0.0

    def chain_calls(self) -> None:
        """Chains the calls: each starts after the last call of its thread. After a longer pause it
        starts after the call of any thread that ended last."""
        last_of: dict[str | None, int] = {}
        latest: int | None = None
        for call in self.calls:
            event = self.events[call]
            before = last_of.get(event.thread)
            paused = before is None or event.start - self.events[before].end > OWN_THREAD
            if paused and latest is not None and self.events[latest].end <= event.start:
                before = latest
            self.edges[2 * call] = [self.after(before, event.start)]
            self.edges[2 * call + 1] = [Edge(2 * call, event.duration)]
            last_of[event.thread] = call
            if latest is None or event.end >= self.events[latest].end:
                latest = call

    def after(self, before: int | None, time: float) -> Edge:
        """Returns the edge from an event's end to a later time, or from time 0."""
        if before is None:
            return Edge(self.root, time)
        return Edge(2 * before + 1, time - self.events[before].end)

    def chain_work(self) -> None:
        """Gives the device's work its edges: from the work before it in its stream, from its
        launch, and from another stream if neither explains its start."""
        latency, last_of = usual_latency(self.events), dict[str, int]()
        for index in self.work:
            event = self.events[index]
            self.edges[2 * index + 1] = [Edge(2 * index, event.duration)]
            edges = self.edges[2 * index]
            before = last_of.get(event.lane)
            free = 0.0 if before is None else self.events[before].end
            launched = self.launch_of(index)
            ready = launched + latency
            held = next(self.ended_before(event.start), index)
            late_by = event.start - max(ready, free)
            crossed = (
                self.events[held].lane != event.lane
                and late_by > LAUNCH_GAP > event.start - self.events[held].end
            )
            if crossed:
                edges.append(self.after(held, event.start))
            late = not crossed and (ready > free or before is None)
            if event.launched_by is not None:
                own = event.start - launched
                edges.append(Edge(2 * event.launched_by, own if late else min(latency, own)))
            else:
                self.anchor(index, edges)
            if before is not None:
                pause = event.start - free
                edges.append(Edge(2 * before + 1, min(pause, 1.0) if late or crossed else pause))
            if not edges:
                edges.append(Edge(self.root, event.start))
            last_of[event.lane] = index

    def anchor(self, index: int, edges: list[Edge]) -> None:
        """Ties work whose call the trace lacks to the call before it, whose thread made it."""
        start = self.events[index].start
        at = bisect_right(self.call_starts, start)
        while at and self.events[self.calls[at - 1]].end > start:
            at -= 1
        if 0 < at < len(self.calls):
            edges.append(self.after(self.calls[at - 1], start))
            self.anchored[index] = self.calls[at]

    def launch_of(self, index: int) -> float:
        launch = self.events[index].launched_by
        return 0.0 if launch is None else self.events[launch].start

    def ended_before(self, time: float) -> Iterator[int]:
        """Yields the device's work that ended up to a time, the last first."""
        at = bisect_right(self.ends, time)
        return (self.by_end[place] for place in range(at - 1, -1, -1))

    def add_waits(self) -> None:
        """Lets each call that waits end after the work that it waited for."""
        copies = {self.events[i].launched_by: i for i in self.work if self.events[i].pageable}
        for call in self.calls:
            event = self.events[call]
            if event.kind == "sync":
                ended = islice(self.ended_before(event.end + CLOCK_SLACK), MOST_LAUNCHED_LATER)
                work = next((i for i in ended if self.launch_of(i) <= event.start), None)
                if work is not None:
                    self.wait(call, work)
            elif call in copies and event.duration > 2 * self.usual_launch:
                self.wait_for_copy(call, copies[call])

    def wait(self, call: int, work: int) -> None:
        event, done = self.events[call], self.events[work].end
        own = SYNC_ITSELF if event.kind == "sync" else self.usual_launch
        own = min(event.duration, own if done > event.start else event.duration)
        tail = event.end - max(done, event.start) if done > event.start else 0.0
        self.edges[2 * call + 1] = [Edge(2 * call, own), Edge(2 * work + 1, tail)]
        self.waiting.add(call)

    def wait_for_copy(self, call: int, copy: int) -> None:
        """Lets a call end after its copy from pageable memory, or with it: the driver moves such
        memory in parts while the call lasts."""
        end, copied = self.events[call].end, self.events[copy]
        if copied.end <= end + CLOCK_SLACK:
            self.wait(call, copy)
        elif copied.start < end:
            own = min(self.events[call].duration, self.usual_launch)
            beside = Edge(2 * copy, end - copied.start)
            self.edges[2 * call + 1] = [Edge(2 * call, own), beside]
            self.waiting.add(call)
