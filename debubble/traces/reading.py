"""A trace of torch.profiler as a timeline: the calls that wait or start work, and that work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract.python.garbage import no_collection
from ..timeline.data import TimelineData
from .events import Builder, Code
from .host import Host, Reader
from .rows import COPY, KERNEL, MEMSET, NONE, Integers, Rows, read_rows
from .text import Path

FAR = 60e6
"""Microseconds from the first host row before which a device row has no time that is right."""
LOST = "{count} kernels or copies have no time in the file, and are left out."


@dataclass
class Trace:
    """A trace of one process on one device: its timeline, and what the timeline has no room for.

    `notes` are sentences about what the trace lacks. `row_of` has the row of each event of the
    timeline; `origin` is the time at which the timeline begins.
    """

    timeline: TimelineData
    rows: Rows
    host: Host
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
    work = rows.in_time(rows.of(KERNEL, COPY, MEMSET))
    host = Reader(rows).read()
    builder = Builder(rows, host, timed(rows, work[rows.device[work] == chosen], notes))
    threads = thread_names(host, [row for row, _ in builder.calls])

    def code_of(call: int) -> Code:
        return Code(host.places[host.of_call[call]].source, threads[int(host.tracks[call])])

    events, row_of = builder.events(code_of)
    timeline = TimelineData("cuda", description(rows, chosen), False, events)
    return Trace(timeline, rows, host, row_of, builder.origin, chosen, devices, notes)


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


def timed(rows: Rows, on_device: Integers, notes: list[str]) -> Integers:
    """Returns the device rows that have a time. Kineto writes 0 for work that had not ended."""
    others = np.flatnonzero(rows.category < KERNEL)
    first = rows.start[others].min() if len(others) else -np.inf
    has_time = (rows.start[on_device] != 0) & (rows.start[on_device] > first - FAR)
    lost = int((~has_time).sum())
    if lost:
        notes.append(LOST.format(count=f"{lost:,}"))
    return on_device[has_time]


def thread_names(host: Host, calls: list[int]) -> dict[int, str | None]:
    """Returns the name of each thread that calls, by its track: None for the one with the most
    calls."""
    found, counts = np.unique(host.tracks[calls], return_counts=True)
    tracks, rows = found.tolist(), host.rows
    threads = [rows.tracks[track] for track in tracks]
    names = [rows.thread_names.get(each, f"thread {each.thread}") for each in threads]
    main = int(np.argmax(counts)) if tracks else NONE
    return {
        track: None if at == main else name
        for at, (track, name) in enumerate(zip(tracks, names, strict=True))
    }


def description(rows: Rows, device: int) -> str:
    """Returns the device's name, as the file's header gives it. AMD's profiler numbers devices in
    another way than the header: a name that all of them have is the device's as well."""
    properties = rows.header.get("deviceProperties")
    found = properties if isinstance(properties, list) else []
    named = [each for each in found if isinstance(each, dict) and each.get("name")]
    names = [str(each["name"])[:200] for each in named if each.get("id") == device]
    names = names or list({str(each["name"])[:200] for each in named})
    if device == NONE:
        return "a host without a GPU"
    return names[0] if len(names) == 1 else "a GPU"
