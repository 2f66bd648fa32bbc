"""Predicts a trace's time without a wait, a copy, or something that the host does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

from ..findings import AFTER_WAIT, COPY, HOST_CAUSES, Finding, calls_before
from ..reading import Trace
from .critical import Share, critical_path, shares
from .cuts import Cuts, next_kernels
from .dependencies import graph_of
from .graph import Edge, Graph

PREDICTED = (AFTER_WAIT, COPY, *HOST_CAUSES)
"""The causes without which a time is predicted: the others name nothing that a program does."""
MOST_EVENTS = 200_000
"""The most events of a timeline that are replayed: more take minutes."""
MOST_PREDICTED = 5
Changes = dict[int, list[Edge]]


class Without:
    """The replay of a trace, with and without its findings. A wait that is gone returns at once, a
    copy takes no time, and what the host did takes none either. All other work stays, so the
    prediction says nothing about work that a fix adds or drops."""

    def __init__(self, trace: Trace, host_scale: float = 1.0) -> None:
        """`host_scale` multiplies all times of the host: below 1 for a trace whose profiler slowed
        the host down, as `host_scale_for` finds it."""
        self.trace, self.host_scale = trace, host_scale
        self.events = trace.timeline.events

    @cached_property
    def graph(self) -> Graph:
        return graph_of(self.events)

    @cached_property
    def next_kernels(self) -> dict[int, str]:
        return next_kernels(self.events)

    def share(self, findings: Iterable[Finding]) -> float | None:
        """Returns the share of the trace's time that is gone without all of these findings, from 0
        to 1, or None if it can't be predicted."""
        found = list(findings)
        if len(self.events) > MOST_EVENTS or any(f.cause not in PREDICTED for f in found):
            return None
        whole = self.span([])
        return max(0.0, 1.0 - self.span(found) / whole) if whole else None

    def path(self) -> list[Share]:
        """Returns the parts of the critical path of the trace as it is, the longest first."""
        return shares(critical_path(self.graph, self.events))

    def span(self, findings: Iterable[Finding]) -> float:
        """Returns the microseconds of the replay without these findings."""
        found = list(findings)
        if not found and self.host_scale == 1:
            return self.graph.unchanged
        return self.graph.span(self._changes(found))

    def _changes(self, findings: list[Finding]) -> Changes:
        waits = {place(f) for f in findings if f.cause == AFTER_WAIT}
        copies = {place(f) for f in findings if f.cause == COPY}
        gone = self._calls_gone(waits, copies)
        of_host = [finding for finding in findings if finding.cause in HOST_CAUSES]
        cuts = Cuts(self.trace, self.next_kernels, of_host)
        changes: Changes = {}
        for index, event in enumerate(self.events):
            if event.on_device:
                if event.kind == "copy" and (event.source, event.name) in copies:
                    changes[2 * index + 1] = [Edge(2 * index, 0.0)]
                if index in self.graph.anchored:
                    self._change_anchored(index, cuts, changes)
            else:
                self._change_call(index, gone, cuts, changes)
        return changes

    def _calls_gone(
        self, waits: set[tuple[object, object]], copies: set[tuple[object, object]]
    ) -> set[int]:
        """Returns the calls that wait no more: the waits at these places, the calls that wait for
        these copies, and the waits that follow them."""
        of_copies = {
            event.launched_by
            for event in self.events
            if event.kind == "copy" and (event.source, event.name) in copies
        }
        before = calls_before(self.events)
        return {
            index
            for index in self.graph.waiting
            if self._is_at(index, waits) or before.get(index, index) in of_copies
        }

    def _is_at(self, call: int, places: set[tuple[object, object]]) -> bool:
        event = self.events[call]
        return (event.source, event.operator or event.name) in places

    def _change_anchored(self, index: int, cuts: Cuts, changes: Changes) -> None:
        """Shortens the time between the call before some work and that work."""
        (before, delay), *others = self.graph.edges[2 * index]
        start, call = self.events[index].start, self.graph.anchored[index]
        left = delay - cuts.between(call, start - delay, start)
        changes[2 * index] = [Edge(before, left * self.host_scale), *others]

    def _change_call(self, index: int, gone: set[int], cuts: Cuts, changes: Changes) -> None:
        event = self.events[index]
        (before, pause), *_ = self.graph.edges[2 * index]
        end = self.graph.edges[2 * index + 1]
        own = end[0].delay
        paused_from = event.start - pause
        new_pause = (pause - cuts.between(index, paused_from, event.start)) * self.host_scale
        cut = cuts.between(index, event.start, event.end)
        new_own = max(0.0, own - cut) * self.host_scale
        waits = end[1:]
        if index in gone or (cut and index in self.graph.waiting):
            waits = []
            new_own = 0.0 if event.kind == "sync" else new_own
        if new_pause != pause:
            changes[2 * index] = [Edge(before, new_pause)]
        if new_own != own or waits != end[1:]:
            changes[2 * index + 1] = [Edge(2 * index, new_own), *waits]


def place(finding: Finding) -> tuple[object, object]:
    return finding.source, finding.operator


def host_scale_for(trace: Trace, measured_us: float) -> float:
    """Returns the factor by which the host's times have to be multiplied for a replay of
    `measured_us`, the microseconds that the same work took without a profiler; from 0.05 to 1."""
    replay = Without(trace)

    def span_of(thousandths: int) -> float:
        replay.host_scale = thousandths / 1000
        return replay.span([])

    scales = range(50, 1001)
    return scales[min(bisect_left(scales, measured_us, key=span_of), len(scales) - 1)] / 1000


def largest(
    trace: Trace, places: list[Finding], measured_share: float | None
) -> tuple[dict[Finding, float], float, list[Share]]:
    """Returns the share of a trace's time that is gone without each of its largest places, the
    factor of the host's times, and the parts of the critical path. With `measured_share`, the time
    without a profiler divided by the time in the trace, the host's times are shortened until the
    replay takes that long; the path is that of the trace as it is."""
    replay = Without(trace)
    if measured_share is not None and len(replay.events) <= MOST_EVENTS:
        replay.host_scale = host_scale_for(trace, measured_share * replay.span([]))
    found = [place for place in places if place.cause in PREDICTED][:MOST_PREDICTED]
    predicted = {place: replay.share([place]) for place in found}
    known = {place: share for place, share in predicted.items() if share is not None}
    path = replay.path() if len(replay.events) <= MOST_EVENTS else []
    return known, replay.host_scale, path
