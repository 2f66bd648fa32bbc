"""A timeline as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from os import PathLike

from .data import TimelineData
from .event import HOST_LANE, Event
from .trace_file import write_whole

HOST_PROCESS, DEVICE_PROCESS = 1, 2
BUBBLE_LANE = "bubbles"


def save_perfetto(timeline: TimelineData, path: str | PathLike[str]) -> None:
    """Writes the timeline to `path` as Chrome trace JSON; on failure `path` is as it was. Raises
    ValueError for times that JSON can't represent (NaN, infinity)."""
    write_whole(_as_json(timeline), path)


def _as_json(timeline: TimelineData) -> Iterator[str]:
    """Yields the Chrome trace of a timeline as pieces of JSON text, some rows at a time: a long
    recording has millions."""
    opening = _encoded({**_header(timeline), "traceEvents": []})
    yield opening.removesuffix("]}")
    rows, comma = _rows(timeline), ""
    while some := list(islice(rows, ROWS_AT_A_TIME)):
        yield comma + _encoded(some)[1:-1]
        comma = ","
    yield "]}"


ROWS_AT_A_TIME = 512
"""Rows in one piece of text. With more, Python's garbage collector treats the rows as long-lived,
and goes through all events."""


LONGEST = 1_000
"""The most characters of a name or a line: each event has both, and no view shows more of them."""


def _encoded(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def chrome_trace(timeline: TimelineData) -> dict[str, object]:
    """Returns the timeline as a Chrome trace: slices with one track per lane, arrows from each
    launch to its device events, and a track of bubbles."""
    return {**_header(timeline), "traceEvents": list(_rows(timeline))}


def _header(timeline: TimelineData) -> dict[str, object]:
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "written by": "debubble",
            "times": timeline.label,
            "modelled": timeline.modelled,
            **timeline.counts(),
        },
    }


def _rows(timeline: TimelineData) -> Iterator[dict[str, object]]:
    lanes = sorted({event.lane for event in timeline.events if event.on_device}, key=lane_order)
    threads = {lane: number for number, lane in enumerate([*lanes, BUBBLE_LANE], 1)}
    yield process_name(HOST_PROCESS, f"host ({timeline.label})")
    yield process_name(DEVICE_PROCESS, f"device ({timeline.label})")
    yield thread_name(HOST_PROCESS, 1, HOST_LANE)
    yield from _rows_of_steps(timeline)
    for lane, thread in threads.items():
        yield thread_name(DEVICE_PROCESS, thread, lane)
    said: dict[int, str] = {}
    for index, event in enumerate(timeline.events):
        process = DEVICE_PROCESS if event.on_device else HOST_PROCESS
        track = {"pid": process, "tid": threads[event.lane] if event.on_device else 1}
        yield {
            "ph": "X",
            "cat": event.kind,
            "name": event.name[:LONGEST],
            "ts": event.start,
            "dur": event.duration,
            "args": arguments(event, said),
            **track,
        }
        launch = timeline.launch_of(event)
        if launch is not None:
            flow = {"cat": "launch", "name": "launch", "id": index}
            yield {"ph": "s", "ts": launch.start, "pid": HOST_PROCESS, "tid": 1, **flow}
            yield {"ph": "f", "bp": "e", "ts": event.start, **track, **flow}
    places: dict[int, dict[str, object]] = {id(None): {}}
    bubbles = timeline.bubbles()
    for bubble in bubbles:
        if id(bubble.source) not in places:
            places[id(bubble.source)] = {"look at": str(bubble.source)[:LONGEST]}
        yield {
            "ph": "X",
            "cat": "bubble",
            "name": bubble.cause,
            "ts": bubble.start,
            "dur": bubble.duration,
            "pid": DEVICE_PROCESS,
            "tid": threads[BUBBLE_LANE],
            "args": places[id(bubble.source)],
        }


def _rows_of_steps(timeline: TimelineData) -> Iterator[dict[str, object]]:
    """Yields a track of the named steps on the host, if there are any."""
    track = {"pid": HOST_PROCESS, "tid": 2}
    if timeline.steps:
        yield thread_name(HOST_PROCESS, 2, "steps")
    for step in timeline.steps:
        span = {"ts": step.start, "dur": step.end - step.start}
        yield {"ph": "X", "cat": "step", "name": step.name[:LONGEST], **span, **track, "args": {}}


def lane_order(lane: str) -> tuple[str, int, str]:
    """Returns a sort key that puts `stream 2` before `stream 10`."""
    word, _, number = lane.rpartition(" ")
    is_number = number.isdecimal() and len(number) < 20
    return (word, int(number), "") if is_number else (lane, -1, number)


def process_name(process: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def thread_name(process: int, thread: int, name: str) -> dict[str, object]:
    args = {"name": name}
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": args}


def arguments(event: Event, said: dict[int, str]) -> dict[str, object]:
    """Returns what a viewer shows about an event's slice: its source line, and a copy's kind and
    bytes. `said` caches the text of each line by identity: many events have the same line."""
    args: dict[str, object] = {}
    if event.source:
        if id(event.source) not in said:
            said[id(event.source)] = event.source.whole[:LONGEST]
        args["source"] = said[id(event.source)]
    if event.copy_kind:
        args |= {"copy": event.copy_kind, "bytes": event.bytes}
    return args
