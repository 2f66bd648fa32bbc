"""The time of threads that is gone if the host no longer does something."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from ...timeline.event import Event
from ..findings import HOST_CAUSES, Finding
from ..host import NONE, Doing, Lines
from ..reading import Trace

BEFORE = "before "
"""The first word of a finding's place if the trace names only the kernel that came next."""


class Cuts:
    """The times of threads that are gone with some findings about the host."""

    def __init__(
        self, trace: Trace, lines: Lines, next_kernels: dict[int, str], findings: list[Finding]
    ) -> None:
        self.trace, self.events = trace, trace.timeline.events
        self.by_place: dict[tuple[object, ...], list[int]] = {}
        for number, doing in enumerate(self.trace.host.kinds):
            key = self.key(doing, lines)
            self.by_place.setdefault(key, []).append(number)
        self.always = self._numbers([f for f in findings if not self.unnamed(f)])
        self.before_kernel: dict[str, frozenset[int]] = {}
        for finding in filter(self.unnamed, findings):
            kernel = (finding.operator or "").removeprefix(BEFORE)
            known = self.before_kernel.get(kernel, frozenset())
            self.before_kernel[kernel] = known | self._numbers([finding])
        self.next_kernels = next_kernels
        self.lost: dict[tuple[int, frozenset[int]], tuple[list[float], list[float]]] = {}

    def unnamed(self, finding: Finding) -> bool:
        return finding.source is None and (finding.operator or "").startswith(BEFORE)

    def key(self, doing: Doing, lines: Lines) -> tuple[object, ...]:
        operator = doing.operator
        name = None if operator == NONE else self.trace.rows.names[operator][6:]
        return doing.kind, lines(doing.function), name

    def _numbers(self, findings: list[Finding]) -> frozenset[int]:
        found: set[int] = set()
        for finding in findings:
            name = None if self.unnamed(finding) else finding.operator
            kind = HOST_CAUSES.index(finding.cause)
            found.update(self.by_place.get((kind, finding.source, name), ()))
        return frozenset(found)

    def between(self, call: int, start: float, end: float) -> float:
        """Returns the microseconds between two times of a call's thread that are gone."""
        numbers = self.always
        if self.before_kernel:
            numbers |= self.before_kernel.get(self.next_kernels.get(call, ""), frozenset())
        if not numbers:
            return 0.0
        track = int(self.trace.tracks[self.trace.row_of[call]])
        times, sums = self._lost(track, numbers)
        first, last = (interpolate(at + self.trace.origin, times, sums) for at in (start, end))
        return min(end - start, last - first)

    def _lost(self, track: int, numbers: frozenset[int]) -> tuple[list[float], list[float]]:
        """Returns times of a thread, and the microseconds that are gone up to each."""
        if (track, numbers) not in self.lost:
            thread = self.trace.host.threads[track]
            is_gone = np.isin(thread.doing, list(numbers))
            lengths = np.diff(thread.starts, append=thread.starts[-1:])
            sums = np.concatenate([[0.0], np.cumsum(lengths * is_gone)[:-1]])
            self.lost[track, numbers] = thread.starts.tolist(), sums.tolist()
        return self.lost[track, numbers]


def interpolate(at: float, times: list[float], sums: list[float]) -> float:
    """Returns the sum at a time between two times that have one."""
    after = bisect_right(times, at)
    if after in (0, len(times)):
        return sums[0 if after == 0 else -1]
    share = (at - times[after - 1]) / (times[after] - times[after - 1])
    return sums[after - 1] + share * (sums[after] - sums[after - 1])


def next_kernels(events: list[Event]) -> dict[int, str]:
    """Returns, for each call, the name of the kernel that its thread launches with it or next."""
    first: dict[int, str] = {}
    for event in events:
        if event.launched_by is not None and event.kind != "copy":
            first.setdefault(event.launched_by, event.name)
    following: dict[str | None, str] = {}
    names: dict[int, str] = {}
    calls = [index for index, event in enumerate(events) if not event.on_device]
    for index in sorted(calls, key=lambda index: -events[index].start):
        thread = events[index].thread
        if index in first:
            following[thread] = first[index]
        if thread in following:
            names[index] = following[thread]
    return names
