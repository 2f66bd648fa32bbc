"""The critical path of a trace: the chain of calls and work that no step can be shorter than."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from ...contract.source_line import SourceLine
from ...timeline.event import Event
from .graph import Graph

KERNELS, COPIES = "the device: kernels", "the device: copies"
LATENCY, DEVICE_GAP = "from a launch to its work", "between two pieces of work"
CALLS, BETWEEN, WAITS = "the host: calls of CUDA", "the host: between calls", "until a wait returns"


class Link(NamedTuple):
    """A part of the path: microseconds of the timeline, the kind of time, and the event in it or
    after it."""

    start: float
    end: float
    kind: str
    event: Event


class Share(NamedTuple):
    """All links of one kind at one place. `share` is that of the whole path, from 0 to 1."""

    kind: str
    source: SourceLine | None
    name: str
    share: float


def critical_path(graph: Graph, events: list[Event]) -> list[Link]:
    """Returns the path from time 0 to the last end, in order."""
    times, chain = graph.longest()
    return [
        Link(times[before], times[node], kind_of(node, before, events), events[node // 2])
        for before, node in pairwise(chain)
        if times[node] > times[before]
    ]


def kind_of(node: int, before: int, events: list[Event]) -> str:
    """Returns the kind of time between two nodes that follow each other on the path."""
    event = events[node // 2]
    if node % 2 and before == node - 1:
        device = COPIES if event.kind == "copy" else KERNELS
        return device if event.on_device else CALLS
    if node % 2:
        return WAITS
    if not event.on_device:
        return BETWEEN
    return LATENCY if before == 2 * (event.launched_by or 0) else DEVICE_GAP


def shares(path: list[Link]) -> list[Share]:
    """Returns the path's parts by kind and place, the longest first."""
    times: dict[tuple[str, SourceLine | None, str], float] = defaultdict(float)
    for link in path:
        times[link.kind, link.event.source, link.event.operator or link.event.name] += (
            link.end - link.start
        )
    whole = sum(times.values())
    found = [Share(*place, time / whole) for place, time in times.items()]
    return sorted(found, key=lambda share: -share.share)
