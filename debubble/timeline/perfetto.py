"""A timeline as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from os import PathLike

from .data import TimelineData
from .event import HOST_LANE, Event
from .trace_file import write_whole

HOST_PROCESS, DEVICE_PROCESS = 1, 2
BUBBLE_LANE = "bubbles"


def save_perfetto(timeline: TimelineData, path: str | PathLike[str]) -> None:
    """`path` is either whole or as it was. ValueError for times that JSON has no numbers for."""
    trace = chrome_trace(timeline)
    write_whole(json.dumps(trace, separators=(",", ":"), allow_nan=False), path)


def chrome_trace(timeline: TimelineData) -> dict[str, object]:
    """Slices on one track a lane, arrows from each launch to what it started, a bubble track."""
    lanes = sorted({event.lane for event in timeline.events if event.on_device}, key=lane_order)
    threads = {lane: number for number, lane in enumerate([*lanes, BUBBLE_LANE], 1)}
    rows = [
        process_name(HOST_PROCESS, f"host ({timeline.label})"),
        process_name(DEVICE_PROCESS, f"device ({timeline.label})"),
        thread_name(HOST_PROCESS, 1, HOST_LANE),
        *(thread_name(DEVICE_PROCESS, thread, lane) for lane, thread in threads.items()),
    ]
    for index, event in enumerate(timeline.events):
        process = DEVICE_PROCESS if event.on_device else HOST_PROCESS
        track = {"pid": process, "tid": threads[event.lane] if event.on_device else 1}
        rows.append(
            {
                "ph": "X",
                "cat": event.kind,
                "name": event.name,
                "ts": event.start,
                "dur": event.duration,
                "args": arguments(event),
                **track,
            }
        )
        launch = timeline.launch_of(event)
        if launch is not None:
            flow = {"cat": "launch", "name": "launch", "id": index}
            rows.append({"ph": "s", "ts": launch.start, "pid": HOST_PROCESS, "tid": 1, **flow})
            rows.append({"ph": "f", "bp": "e", "ts": event.start, **track, **flow})
    for bubble in timeline.bubbles():
        rows.append(
            {
                "ph": "X",
                "cat": "bubble",
                "name": bubble.cause,
                "ts": bubble.start,
                "dur": bubble.duration,
                "pid": DEVICE_PROCESS,
                "tid": threads[BUBBLE_LANE],
                "args": {"look at": str(bubble.source)} if bubble.source else {},
            }
        )
    return {
        "traceEvents": rows,
        "displayTimeUnit": "ms",
        "otherData": {
            "written by": "debubble",
            "times": timeline.label,
            "modelled": timeline.modelled,
            **timeline.counts(),
        },
    }


def lane_order(lane: str) -> tuple[str, int, str]:
    """`stream 2` before `stream 10`."""
    word, _, number = lane.rpartition(" ")
    is_number = number.isdecimal() and len(number) < 20
    return (word, int(number), "") if is_number else (lane, -1, number)


def process_name(process: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def thread_name(process: int, thread: int, name: str) -> dict[str, object]:
    args = {"name": name}
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": args}


def arguments(event: Event) -> dict[str, object]:
    args: dict[str, object] = {"source": str(event.source)} if event.source else {}
    if event.copy_kind:
        args |= {"copy": event.copy_kind, "bytes": event.bytes}
    return args
