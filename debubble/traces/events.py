"""Makes the events of a timeline from a trace's rows: calls that wait or start work, and that
work."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..contract.source_line import SourceLine
from ..timeline.event import HOST_LANE, Event, EventKind
from .host import CALLS, Host
from .names import BEGIN, END, copy_kind, host_kind, lanes, short_kernel_name, words
from .rows import COPY, KERNEL, MEMSET, NONE, Integers, Rows

DEVICE_KIND: dict[int, EventKind] = {KERNEL: "kernel", COPY: "copy", MEMSET: "memset"}


class Code(NamedTuple):
    """The code that made a call, as the fields of an event have it."""

    source: SourceLine | None
    thread: str | None
    allowed: bool = False
    call: str | None = None

    @property
    def of_work(self) -> Code:
        """The fields of device work and of launches: without the line inside PyTorch and the call's
        name, which only waits and calls of copies have."""
        return self._replace(source=self.source and self.source.outside_pytorch, call=None)


NO_CODE = Code(None, None)
CodeOf = Callable[[int], Code]
"""Returns the code that made a call, by the call's row."""


class Builder:
    """The rows that become events: `calls`, each with its kind, and the device's `work`, both in
    the order of time. `call_of` has the row of the call of each piece of work, or NONE; `origin` is
    the time at which the timeline begins."""

    def __init__(
        self, rows: Rows, host: Host, on_device: Integers, allocations: bool = False
    ) -> None:
        """`on_device` has the rows of the device's work in the order of time. With `allocations`,
        calls that allocate memory are events too."""
        self.rows, self.host = rows, host
        begin, end = window(rows)
        calls = rows.in_time(rows.of(*CALLS))
        calls = calls[(rows.start[calls] >= begin) & (rows.start[calls] <= end)]
        call_of = match(rows, on_device, calls)
        inside = (call_of != NONE) | (begin == -np.inf)
        self.work, self.call_of = on_device[inside].tolist(), call_of[inside].tolist()
        launches = set(self.call_of)
        kinds = (
            (row, host_kind(rows.text(row), row in launches, allocations)) for row in calls.tolist()
        )
        self.calls = [(row, kind) for row, kind in kinds if kind is not None]
        starts = [rows.start[row] for row in [row for row, _ in self.calls] + self.work[:1]]
        self.origin = begin if np.isfinite(begin) else float(min(starts, default=0.0))

    def events(self, code_of: CodeOf) -> tuple[list[Event], list[int]]:
        """Returns the events, those of the host first, and the row of each."""
        category = self.rows.category
        launched = list(zip(self.work, self.call_of, strict=True))
        copies = {call for row, call in launched if category[row] == COPY}
        codes = {row: code_of(row) for row, _ in self.calls}
        of_work = {row: code.of_work for row, code in codes.items()}
        index_of = {row: index for index, row in enumerate(codes)}
        events = []
        for row, kind in self.calls:
            is_named = kind == "sync" or row in copies
            events.append(self._call(row, kind, (codes if is_named else of_work)[row], is_named))
        row_of = list(codes)
        lane_of = lanes(self.rows.stream[self.work].tolist())
        for row, call in launched:
            code, lane = of_work.get(call, NO_CODE), lane_of[int(self.rows.stream[row])]
            event = self._piece(row, lane, call, code, index_of.get(call))
            if event is not None:
                events.append(event)
                row_of.append(row)
        return events, row_of

    def _call(self, row: int, kind: EventKind, code: Code, is_named: bool) -> Event:
        text, operator = self.rows.text(row), self._operator(row)
        name = text if kind == "alloc" else operator or text
        return Event(
            kind,
            words(text) if kind == "sync" else name,
            HOST_LANE,
            *self._times(row),
            code.source,
            allowed=code.allowed,
            thread=code.thread,
            call=code.call,
            operator=operator if is_named else None,
        )

    def _piece(
        self, row: int, lane: str, call: int, code: Code, launched_by: int | None
    ) -> Event | None:
        """Returns a piece of the device's work, or None for a copy within the host."""
        text, kind = self.rows.text(row), DEVICE_KIND[int(self.rows.category[row])]
        copied = copy_kind(text) if kind == "copy" else None
        if kind == "copy" and copied is None:
            return None
        return Event(
            kind,
            copied or self._operator(call) or short_kernel_name(text),
            lane,
            *self._times(row),
            code.source,
            copied,
            int(self.rows.bytes[row]),
            launched_by,
            pageable=kind == "copy" and "Pageable" in text,
            allowed=code.allowed,
            thread=code.thread,
        )

    def _times(self, row: int) -> tuple[float, float]:
        return float(self.rows.start[row]) - self.origin, float(self.rows.duration[row])

    def _operator(self, call: int) -> str | None:
        return self.host.places[self.host.of_call.get(call, NONE)].operator


def window(rows: Rows) -> tuple[float, float]:
    """Returns the times between which calls count: those of our recordings' marks, or else up to
    the wait by which the profiler itself ends, the last call of a file."""
    begin, end = rows.named(BEGIN), rows.named(END)
    if len(begin) and len(end):
        return float(rows.start[begin[0]] + rows.duration[begin[0]]), float(rows.start[end[-1]])
    calls = rows.of(*CALLS)
    if len(calls):
        last = calls[np.argmax(rows.start[calls])]
        if rows.text(last) in ("cudaDeviceSynchronize", "hipDeviceSynchronize"):
            return -np.inf, float(np.nextafter(rows.start[last], -np.inf))
    return -np.inf, np.inf


def match(rows: Rows, on_device: Integers, calls: Integers) -> Integers:
    """Returns for each device row the row of the call that started it, or NONE: the last call of
    the same correlation that began before it. Processes of one file may use the same numbers."""
    numbered = calls[rows.correlation[calls] != NONE]
    order = numbered[np.lexsort((rows.start[numbered], rows.correlation[numbered]))]
    known = rows.correlation[order]
    wanted = rows.correlation[on_device]
    first = np.searchsorted(known, wanted, side="left")
    last = np.searchsorted(known, wanted, side="right")
    found = np.full(len(on_device), NONE, np.int64)
    alone = last - first == 1
    found[alone] = order[first[alone]]
    for at in np.flatnonzero(last - first > 1).tolist():
        candidates = order[first[at] : last[at]]
        before = candidates[rows.start[candidates] <= rows.start[on_device[at]]]
        found[at] = before[-1] if len(before) else candidates[0]
    return found
