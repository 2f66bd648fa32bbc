"""A trace of torch.profiler as a timeline: the calls that wait or start work, and that work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract.python.garbage import no_collection
from ..timeline.data import TimelineData
from ..timeline.event import HOST_LANE, Event, EventKind
from .host import CALLS, Host, Lines, read_host, threads_of_calls
from .names import copy_kind, host_kind, lanes, short_kernel_name, words
from .rows import COPY, KERNEL, MEMSET, NONE, Integers, Rows, read_rows
from .text import Path

BEGIN, END = "debubble:begin", "debubble:end"
"""Annotations that our own recordings make where the recorded block begins and ends."""
DEVICE_KIND: dict[int, EventKind] = {KERNEL: "kernel", COPY: "copy", MEMSET: "memset"}
FAR = 60e6
"""Microseconds from the first host row before which a device row has no time that is right."""


LOST = "{count} kernels or copies have no time in the file, and are left out."


@dataclass
class Trace:
    """A trace of one process on one device: its timeline, and what the timeline has no room for.

    `notes` are sentences about what the trace lacks. `tracks` has the thread of each row, `row_of`
    the row of each event of the timeline; `origin` is the time at which the timeline begins.
    """

    timeline: TimelineData
    rows: Rows
    host: Host
    tracks: Integers
    row_of: list[int]
    origin: float
    device: int
    devices: list[int]
    notes: list[str]


def read_trace(path: Path, device: int | None = None) -> Trace:
    """Reads the trace in a file, of the device with this number, or of the busiest one. Raises
    TraceFileError for a file that can't be read, and ValueError for a device that is not in it."""
    with no_collection():
        return build_trace(read_rows(path), device)


def build_trace(rows: Rows, device: int | None = None) -> Trace:
    notes: list[str] = []
    chosen, devices = choose_device(rows, device)
    on_device = timed(rows, device_rows(rows, chosen), notes)
    host = read_host(rows)
    begin, end = window(rows)
    tracks = threads_of_calls(rows)
    calls = rows.of(*CALLS)
    calls = calls[np.argsort(rows.start[calls], kind="stable")]
    calls = calls[(rows.start[calls] >= begin) & (rows.start[calls] <= end)]
    call_of = match(rows, on_device, calls)
    inside = (call_of != NONE) | ((rows.start[on_device] >= begin) & (begin == -np.inf))
    on_device, call_of = on_device[inside], call_of[inside]
    builder = _Builder(rows, host, tracks, begin)
    timeline, row_of = builder.timeline(calls, on_device, call_of, chosen)
    return Trace(timeline, rows, host, tracks, row_of, builder.origin, chosen, devices, notes)


def choose_device(rows: Rows, device: int | None) -> tuple[int, list[int]]:
    """Returns the chosen device, by default the one with the most rows, and all devices."""
    work = rows.of(KERNEL, COPY, MEMSET)
    found, counts = np.unique(rows.device[work], return_counts=True)
    devices = found.tolist()
    if device is not None and device not in devices:
        raise ValueError(f"the trace has no device {device}: it has {devices}")
    if device is None:
        device = devices[int(np.argmax(counts))] if devices else NONE
    return device, devices


def device_rows(rows: Rows, device: int) -> Integers:
    work = rows.of(KERNEL, COPY, MEMSET)
    mine = work[rows.device[work] == device]
    return mine[np.argsort(rows.start[mine], kind="stable")]


def timed(rows: Rows, on_device: Integers, notes: list[str]) -> Integers:
    """Returns the device rows that have a time. Kineto writes 0 for work that had not ended."""
    others = np.flatnonzero(rows.category < KERNEL)
    first = rows.start[others].min() if len(others) else -np.inf
    has_time = (rows.start[on_device] != 0) & (rows.start[on_device] > first - FAR)
    lost = int((~has_time).sum())
    if lost:
        notes.append(LOST.format(count=f"{lost:,}"))
    return on_device[has_time]


def window(rows: Rows) -> tuple[float, float]:
    """Returns the times between which calls count: those of our recordings' marks, or else up to
    the wait by which the profiler itself ends, the last call of a file."""
    begin, end = marked(rows, BEGIN), marked(rows, END)
    if len(begin) and len(end):
        return float(rows.start[begin[0]] + rows.duration[begin[0]]), float(rows.start[end[-1]])
    calls = rows.of(*CALLS)
    if len(calls):
        last = calls[np.argmax(rows.start[calls])]
        if rows.names[rows.name[last]] in ("cudaDeviceSynchronize", "hipDeviceSynchronize"):
            return -np.inf, float(np.nextafter(rows.start[last], -np.inf))
    return -np.inf, np.inf


def marked(rows: Rows, name: str) -> Integers:
    if name not in rows.names:
        return np.array([], np.int64)
    return np.flatnonzero(rows.name == rows.names.index(name))


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


class _Builder:
    """Makes the events of a timeline from rows."""

    def __init__(self, rows: Rows, host: Host, tracks: Integers, begin: float) -> None:
        self.rows, self.host, self.tracks = rows, host, tracks
        self.origin = begin
        self.lines = Lines(rows.names)
        self.short: dict[int, str] = {}

    def timeline(
        self, calls: Integers, on_device: Integers, call_of: Integers, device: int
    ) -> tuple[TimelineData, list[int]]:
        rows = self.rows
        launches, copies = (
            set(call_of.tolist()),
            set(call_of[rows.category[on_device] == COPY].tolist()),
        )
        kept = [
            (row, kind)
            for row in calls.tolist()
            if (kind := host_kind(rows.names[rows.name[row]], row in launches)) is not None
        ]
        if not np.isfinite(self.origin):
            every = [row for row, _ in kept] + on_device[:1].tolist()
            self.origin = float(rows.start[every].min()) if every else 0.0
        threads = self.threads([row for row, _ in kept])
        events: list[Event] = []
        row_of: list[int] = []
        index_of: dict[int, int] = {}
        for row, kind in kept:
            index_of[row] = len(events)
            doing = self.host.of_call[row]
            operator = self.operator(doing.operator)
            called = rows.names[rows.name[row]]
            named = operator if kind == "sync" or row in copies else None
            events.append(
                Event(
                    kind,
                    words(called) if kind == "sync" else operator or called,
                    HOST_LANE,
                    float(rows.start[row]) - self.origin,
                    float(rows.duration[row]),
                    self.lines(doing.function),
                    thread=threads[int(self.tracks[row])],
                    operator=named,
                )
            )
            row_of.append(row)
        lane_of = lanes(rows.stream[on_device].tolist())
        for row, call in zip(on_device.tolist(), call_of.tolist(), strict=True):
            event = self.device_event(row, call, lane_of, index_of, threads)
            if event is not None:
                events.append(event)
                row_of.append(row)
        return TimelineData("cuda", self.description(device), False, events), row_of

    def device_event(
        self,
        row: int,
        call: int,
        lane_of: dict[int, str],
        index_of: dict[int, int],
        threads: dict[int, str | None],
    ) -> Event | None:
        rows = self.rows
        text, category = rows.names[rows.name[row]], int(rows.category[row])
        copied = copy_kind(text) if category == COPY else None
        if category == COPY and copied is None:
            return None
        doing = self.host.of_call.get(call)
        operator = self.operator(doing.operator) if doing else None
        return Event(
            DEVICE_KIND[category],
            copied or operator or self.short_name(int(rows.name[row])),
            lane_of[int(rows.stream[row])],
            float(rows.start[row]) - self.origin,
            float(rows.duration[row]),
            self.lines(doing.function) if doing else None,
            copy_kind=copied,
            bytes=int(rows.bytes[row]),
            launched_by=index_of.get(call),
            pageable=category == COPY and "Pageable" in text,
            thread=threads.get(int(self.tracks[call])) if call != NONE else None,
        )

    def short_name(self, name: int) -> str:
        if name not in self.short:
            self.short[name] = short_kernel_name(self.rows.names[name])
        return self.short[name]

    def operator(self, name: int) -> str | None:
        return None if name == NONE else self.rows.names[name].removeprefix("aten::")

    def threads(self, calls: list[int]) -> dict[int, str | None]:
        """Returns the name of each thread that calls: None for the one with the most calls."""
        tracks, counts = np.unique(self.tracks[calls], return_counts=True)
        names: dict[int, str | None] = {
            track: self.rows.thread_names.get(
                self.rows.tracks[track], f"thread {self.rows.tracks[track].thread}"
            )
            for track in tracks.tolist()
        }
        if len(tracks):
            names[int(tracks[np.argmax(counts)])] = None
        return names

    def description(self, device: int) -> str:
        """Returns the device's name, as the file's header gives it."""
        properties = self.rows.header.get("deviceProperties")
        for found in properties if isinstance(properties, list) else []:
            if isinstance(found, dict) and found.get("id") == device and "name" in found:
                return str(found["name"])[:200]
        return "a GPU" if device != NONE else "a host without a GPU"
