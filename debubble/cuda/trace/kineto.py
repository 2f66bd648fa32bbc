"""Turns Kineto's trace into events of a timeline."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypedDict

from debubble.contract.recorded import Also
from debubble.contract.source_line import SourceLine
from debubble.timeline.event import HOST_LANE, Event
from debubble.timeline.threads import ANOTHER
from debubble.traces.names import (
    DEVICE_KINDS,
    HOST_CATEGORIES,
    copy_kind,
    host_kind,
    lanes,
    short_kernel_name,
    words,
)

from .driver_calls import unrecorded_copy_calls
from .marks import BEGIN, COMPILE, COPY, END, FAILED, PREFIX, UNMARKED, Mark, Marks

if TYPE_CHECKING:
    from .kineto_rows import KinetoRow, Trace


def events_of(trace: Trace, marks: Marks, also: frozenset[Also] = frozenset()) -> list[Event]:
    """Returns the host calls that wait or start device work, and the device work that they started,
    between the marks of begin and end, and what `also` names."""
    rows = [row for row in trace["traceEvents"] if _is_on_host_or_device(row)]
    begin, end = _bounds(rows)
    lines = _Spans(row for row in rows if _is_a_line(row["name"]))
    operators = _Spans(row for row in rows if row["name"].startswith("aten::"))
    calls = [row for row in rows if row.get("cat") in HOST_CATEGORIES]
    calls = _in_threads_of_their_operators(calls, rows) + unrecorded_copy_calls(rows)
    calls = [row for row in calls if begin <= row["ts"] <= end]
    by_correlation = {row["args"].get("correlation"): row for row in calls}
    device_rows = sorted(
        (
            row
            for row in rows
            if row.get("cat") in DEVICE_KINDS and row["args"].get("correlation") in by_correlation
        ),
        key=lambda row: row["ts"],
    )
    launches = {row["args"]["correlation"] for row in device_rows}
    copies = {row["args"]["correlation"] for row in device_rows if row["cat"] == "gpu_memcpy"}
    events: list[Event] = []
    index_of: dict[int, int] = {}
    for row in sorted(calls, key=lambda row: row["ts"]):
        correlation = row["args"].get("correlation")
        kind = host_kind(row["name"], correlation in launches, "alloc" in also)
        if kind is None:
            continue
        if correlation is not None:
            index_of[correlation] = len(events)
        operator = operators.name(row)
        name = operator or row["name"]
        if kind == "sync":
            name = words(row["name"])
        if kind == "alloc":
            name = row["name"]
        times = (row["ts"] - begin, row["dur"])
        asked = _asked_for(lines, marks, row)
        if kind == "sync" or correlation in copies:
            event = Event(kind, name, HOST_LANE, *times, **asked, operator=operator)
        else:
            event = Event(kind, name, HOST_LANE, *times, **_of_work(asked))
        events.append(event)
    lane_of = lanes(row["args"]["stream"] for row in device_rows)
    compilations = _compilations(rows, marks, begin, end) if "compile" in also else ()
    for row in device_rows:
        correlation = row["args"]["correlation"]
        call = by_correlation[correlation]
        kind = DEVICE_KINDS[row["cat"]]
        copied = copy_kind(row["name"]) if kind == "copy" else None
        if kind == "copy" and copied is None:
            continue
        name = copied or operators.name(call) or short_kernel_name(row["name"])
        events.append(
            Event(
                kind,
                name.removeprefix("aten::"),
                lane_of[row["args"]["stream"]],
                row["ts"] - begin,
                row["dur"],
                copy_kind=copied,
                bytes=int(row["args"].get("bytes", 0)),
                launched_by=index_of.get(correlation),
                pageable=kind == "copy" and "Pageable" in row["name"],
                **_of_work(_asked_for(lines, marks, call)),
            )
        )
    events.extend(compilations)
    return events


def _is_on_host_or_device(row: KinetoRow) -> bool:
    """Returns True for a row that is a stretch of time on the host or the device. Annotations have
    two rows: one where the host made them, and a shadow on the device, which is left out."""
    return row.get("ph") == "X" and row.get("cat") != "gpu_user_annotation"


def _is_a_line(name: str) -> bool:
    """Returns True if the annotation marks a line of the learner, and not a boundary or a copy."""
    return name.startswith(PREFIX) and not name.startswith((BEGIN, END, COPY, COMPILE, FAILED))


def _in_threads_of_their_operators(
    calls: list[KinetoRow], rows: list[KinetoRow]
) -> list[KinetoRow]:
    """Returns the rows of CUDA calls with corrected threads. The trace names the thread of a CUDA
    call by an address that a later thread may get as well; for the operator that makes the call it
    names the thread itself."""
    threads: dict[int | None, int] = {
        row["args"]["External id"]: row["tid"]
        for row in rows
        if row.get("cat") == "cpu_op" and "External id" in row["args"]
    }
    return [
        {**row, "tid": threads.get(row["args"].get("External id"), row["tid"])} for row in calls
    ]


class _Spans:
    """The rows of a trace by thread, in which to find the innermost row that contains a call."""

    def __init__(self, rows: Iterable[KinetoRow]) -> None:
        self._rows: dict[int, list[KinetoRow]] = defaultdict(list)
        for row in rows:
            self._rows[row["tid"]].append(row)
        for per_thread in self._rows.values():
            per_thread.sort(key=lambda row: row["ts"])
        self._starts = {tid: [row["ts"] for row in per] for tid, per in self._rows.items()}

    def find(self, call: KinetoRow, thread: int | None = None) -> KinetoRow | None:
        """Returns the innermost row in which the call began, in the call's own thread or in
        `thread`; None if there is none."""
        thread = call["tid"] if thread is None else thread
        rows, starts = self._rows.get(thread, []), self._starts.get(thread, [])
        at = bisect_right(starts, call["ts"]) - 1
        for row in reversed(rows[max(0, at - MAX_NESTING) : at + 1]):
            if row["ts"] + row["dur"] >= call["ts"]:
                return row
        return None

    def name(self, call: KinetoRow) -> str | None:
        found = self.find(call)
        return found["name"].removeprefix("aten::") if found else None


MAX_NESTING = 64


def _bounds(rows: list[KinetoRow]) -> tuple[float, float]:
    """Returns the times at which the learner's part begins and ends. Events outside, such as the
    profiler's own final wait, are left out."""
    begin = [row["ts"] + row["dur"] for row in rows if row["name"] == BEGIN]
    end = [row["ts"] for row in rows if row["name"] == END]
    return (begin[0] if begin else 0.0), (end[-1] if end else float("inf"))


class _AskedFor(TypedDict):
    """The fields of an event that say which code caused it."""

    source: SourceLine | None
    allowed: bool
    thread: str | None
    call: str | None


def _of_work(asked: _AskedFor) -> _AskedFor:
    """Returns the fields as device work and launches have them: without the line inside PyTorch and
    the call's name, which only waits and calls of copies have."""
    source = asked["source"]
    return {**asked, "source": source and source.outside_pytorch, "call": None}


def _asked_for(lines: _Spans, marks: Marks, call: KinetoRow) -> _AskedFor:
    """Returns which code caused a call. Work of autograd in a thread of its own belongs to the line
    that waits for it."""
    thread = marks.thread(call["tid"])
    span = lines.find(call)
    if span is None and thread == ANOTHER:
        span = lines.find(call, marks.recorder)
    mark: Mark = marks.mark(span["name"]) if span else UNMARKED
    return {"source": mark.line, "allowed": mark.allowed, "thread": thread, "call": mark.call}


def _compilations(rows: list[KinetoRow], marks: Marks, begin: float, end: float) -> Iterator[Event]:
    for row in rows:
        if row["name"].startswith(COMPILE) and begin <= row["ts"] <= end:
            name, mark = marks.compilations[int(row["name"].removeprefix(COMPILE))]
            yield Event(
                "compile",
                name,
                HOST_LANE,
                row["ts"] - begin,
                row["dur"],
                mark.line,
                allowed=mark.allowed,
                thread=marks.thread(row["tid"]),
                call=mark.call,
            )
