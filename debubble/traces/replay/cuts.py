"""The time of threads that is gone if the host no longer does something."""

from __future__ import annotations

from collections import defaultdict

from ...timeline.event import Event
from ..findings import HOST_CAUSES, Finding
from ..host import Place
from ..reading import Trace

BEFORE = "before "
"""The first word of a finding's place if the trace names only the kernel that came next."""


class Cuts:
    """The times of threads that are gone with some findings about the host."""

    def __init__(self, trace: Trace, next_kernels: dict[int, str], findings: list[Finding]) -> None:
        self.trace, self.next_kernels = trace, next_kernels
        self.always: set[int] = set()
        self.before_kernel: defaultdict[str, set[int]] = defaultdict(set)
        numbers: defaultdict[Place, set[int]] = defaultdict(set)
        for number, place in enumerate(trace.host.places[:-1]):
            numbers[place].add(number)
        for cause, source, operator, *_ in findings:
            kind = HOST_CAUSES.index(cause)
            if source is None and operator and operator.startswith(BEFORE):
                kernel = operator.removeprefix(BEFORE)
                self.before_kernel[kernel] |= numbers[Place(kind, None, None)]
            else:
                self.always |= numbers[Place(kind, source, operator)]

    def between(self, call: int, start: float, end: float) -> float:
        """Returns the microseconds between two times of a call's thread that are gone."""
        gone = self.always
        if self.before_kernel:
            gone = gone | self.before_kernel.get(self.next_kernels.get(call, ""), set())
        if not gone:
            return 0.0
        host, origin = self.trace.host, self.trace.origin
        track = int(host.tracks[self.trace.row_of[call]])
        times = host.times(track, start + origin, end + origin)
        return min(end - start, sum(time for kind, time in times.items() if kind in gone))


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
