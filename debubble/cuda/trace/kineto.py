"""Turns Kineto's trace of a recording into events of a timeline. A recording is read as any trace
is, but its lines are those of our own marks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from debubble.contract.recorded import Also
from debubble.timeline.event import HOST_LANE, Event
from debubble.timeline.threads import ANOTHER
from debubble.timeline.trace_format import TraceFileError
from debubble.traces.events import Builder, Code, window
from debubble.traces.host import ATEN, CALLS, NONE, Doing, Host, Reader
from debubble.traces.names import BEGIN, END, PREFIX
from debubble.traces.rows import ANNOTATION, COPY, KERNEL, MEMSET, OPERATOR, Collector, Rows

from .driver_calls import unrecorded_copy_calls
from .kineto_rows import KinetoRow, Trace
from .marks import COMPILE, FAILED, UNMARKED, Mark, Marks
from .marks import COPY as COPY_MARK


def events_of(trace: Trace, marks: Marks, also: frozenset[Also] = frozenset()) -> list[Event]:
    """Returns the host calls that wait or start device work, and the device work that they started,
    between the marks of begin and end, and what `also` names."""
    collector = Collector(TraceFileError)
    events = [row for row in trace["traceEvents"] if _is_on_host_or_device(row)]
    for row in [*events, *unrecorded_copy_calls(events)]:
        collector.add(row)
    rows = collector.rows({})
    host = _MarkReader(rows).read()
    work = rows.in_time(rows.of(KERNEL, COPY, MEMSET))
    builder = Builder(rows, host, work, allocations="alloc" in also)
    made, _ = builder.events(_Codes(host, marks))
    return made + list(_compilations(rows, marks)) if "compile" in also else made


def _is_on_host_or_device(row: KinetoRow) -> bool:
    """Returns True for a row that is a stretch of time on the host or the device. Annotations have
    two rows: one where the host made them, and a shadow on the device, which is left out."""
    return row.get("ph") == "X" and row.get("cat") != "gpu_user_annotation"


class _MarkReader(Reader):
    """Reads threads with the innermost mark as the function of each activity."""

    OF_THREADS = (OPERATOR, ANNOTATION, *CALLS)

    def state(self, around: Doing, category: int, name: int) -> Doing:
        text = self.rows.names[name]
        if _is_a_line(text):
            return around._replace(function=name)
        return around._replace(operator=name) if text.startswith(ATEN) else around


def _is_a_line(name: str) -> bool:
    """Returns True if the annotation marks a line of the learner, and not a boundary or a copy."""
    return name.startswith(PREFIX) and not name.startswith((BEGIN, END, COPY_MARK, COMPILE, FAILED))


class _Codes:
    """The code of each call by its mark. Work of autograd in a thread of its own belongs to the
    line that waits for it."""

    def __init__(self, host: Host, marks: Marks) -> None:
        self._host, self._marks = host, marks
        threads = ((track, host.rows.tracks[track].thread) for track in host.threads)
        self._recorder = [track for track, thread in threads if thread == marks.recorder]

    def __call__(self, call: int) -> Code:
        host = self._host
        thread = self._marks.thread(host.rows.tracks[host.tracks[call]].thread)
        mark = self._mark(host.kinds[host.of_call[call]])
        if mark is UNMARKED and thread == ANOTHER:
            mark = self._waiting(float(host.rows.start[call]))
        return Code(mark.line, thread, mark.allowed, mark.call)

    def _waiting(self, time: float) -> Mark:
        """Returns the mark in which the recording thread was at this time."""
        found = (self._host.doing(track, time) for track in self._recorder)
        return next((self._mark(doing) for doing in found), UNMARKED)

    def _mark(self, doing: Doing) -> Mark:
        if doing.function == NONE:
            return UNMARKED
        return self._marks.mark(self._host.rows.names[doing.function])


def _compilations(rows: Rows, marks: Marks) -> Iterator[Event]:
    begin, end = window(rows)
    numbers = [number for number, name in enumerate(rows.names) if name.startswith(COMPILE)]
    for row in np.flatnonzero(np.isin(rows.name, numbers)).tolist():
        if begin <= rows.start[row] <= end:
            name, mark = marks.compilations[int(rows.text(row).removeprefix(COMPILE))]
            yield Event(
                "compile",
                name,
                HOST_LANE,
                float(rows.start[row]) - begin,
                float(rows.duration[row]),
                mark.line,
                allowed=mark.allowed,
                thread=marks.thread(rows.tracks[rows.track[row]].thread),
                call=mark.call,
            )
