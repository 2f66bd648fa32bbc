"""Events and bubbles as bytes for the browser: column after column, little endian, no padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from debubble.contract.source_line import SourceLine
from debubble.timeline.bubbles import CAUSES, Bubble
from debubble.timeline.data import TimelineData
from debubble.timeline.event import Event
from debubble.timeline.trace_file import Interned

from ..planes import STEPS
from .palette import EVENT_STYLES
from .words import ordered_lanes

# Column name and type, the widest first, so that each one starts aligned. Times are microseconds;
# -1 stands for "none" in `source` and `launched_by`.
EVENT_COLUMNS = (
    ("start", "<f8"),
    ("duration", "<f4"),
    ("bytes", "<f4"),
    ("name", "<i4"),
    ("source", "<i4"),
    ("launched_by", "<i4"),
    ("kind", "u1"),
    ("lane", "u1"),
)
BUBBLE_COLUMNS = (("start", "<f8"), ("duration", "<f4"), ("source", "<i4"), ("cause", "u1"))
MOST_LANES = 250
KINDS = list(EVENT_STYLES)


class Packed(NamedTuple):
    """Packed events and bubbles. `facts` has the values that the bytes refer to: names, source
    lines, lanes, counts, shares."""

    events: bytes
    bubbles: bytes
    facts: dict[str, object]


def pack(timeline: TimelineData) -> Packed:
    names, sources, lanes = Interned[str](), Interned[SourceLine](), Interned[str]()
    for lane in ordered_lanes(timeline.events)[:MOST_LANES]:
        lanes.number(lane)
    found = timeline.bubbles()
    events = pack_events(timeline.events, names, sources, lanes)
    bubbles = pack_bubbles(found, sources)
    facts = {
        "label": timeline.label,
        "modelled": timeline.modelled,
        "counts": timeline.counts(),
        "events": len(timeline.events),
        "bubbles": len(found),
        "lanes": lanes.values[:MOST_LANES],
        "names": names.values,
        "sources": [describe_source(source) for source in sources.values],
        "length": timeline.length,
        "load": timeline.span - timeline.device_span(ignore_sleep=True),
        "span": timeline.span,
        "idle_by_cause": list(timeline.idle_by_cause().values()),
        "steps": [[step.name, step.start, step.end] for step in timeline.steps],
    }
    return Packed(events, bubbles, facts)


def pack_events(
    events: Sequence[Event],
    names: Interned[str],
    sources: Interned[SourceLine],
    lanes: Interned[str],
) -> bytes:
    """Returns the events as bytes, column after column; their names, source lines and lanes are
    numbers in these tables. Lanes beyond the most that can be drawn share the last one."""
    columns = {
        "start": on_grid([event.start for event in events]),
        "duration": [event.duration for event in events],
        "bytes": [event.bytes for event in events],
        "name": [names.number(event.name) for event in events],
        "source": [none_as_minus_one(sources(event.source)) for event in events],
        "launched_by": [none_as_minus_one(event.launched_by) for event in events],
        "kind": [KINDS.index(event.copy_kind or event.kind) for event in events],
        "lane": [min(lanes.number(event.lane), MOST_LANES - 1) for event in events],
    }
    return b"".join(np.asarray(columns[name], dtype).tobytes() for name, dtype in EVENT_COLUMNS)


def pack_bubbles(bubbles: Sequence[Bubble], sources: Interned[SourceLine]) -> bytes:
    columns = {
        "start": on_grid([bubble.start for bubble in bubbles]),
        "duration": [bubble.duration for bubble in bubbles],
        "source": [none_as_minus_one(sources(bubble.source)) for bubble in bubbles],
        "cause": [CAUSES.index(bubble.cause) for bubble in bubbles],
    }
    return b"".join(np.asarray(columns[name], dtype).tobytes() for name, dtype in BUBBLE_COLUMNS)


def unpack(data: bytes, count: int, layout: Sequence[tuple[str, str]]) -> dict[str, np.ndarray]:
    """Returns the columns in packed events or bubbles by name, `count` values each, as
    recording/columns.js does in the browser."""
    columns, offset = {}, 0
    for name, dtype in layout:
        columns[name] = np.frombuffer(data, dtype, count, offset)
        offset += columns[name].nbytes
    return columns


def on_grid(times: Sequence[float]) -> np.ndarray:
    return np.round(np.asarray(times, np.float64) * STEPS) / STEPS


def none_as_minus_one(index: int | None) -> int:
    return -1 if index is None else index


def describe_source(source: SourceLine) -> list[str]:
    return [source.place, source.text]
