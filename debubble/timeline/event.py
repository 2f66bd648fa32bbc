"""One event of a recording, and the line of code that caused it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..contract.source_line import SourceLine

EventKind = Literal[
    "launch", "graph_launch", "sync", "python", "compile", "alloc", "kernel", "copy", "memset"
]
CopyKind = Literal["h2d_pageable", "h2d_pinned", "d2h", "d2d"]
HazardKind = Literal[
    "overwritten_in_flight",
    "read_before_sync",
    "graph_input_freed",
    "graph_output_overwritten",
    "unordered_streams",
    "memory_reused",
    "allocated_elsewhere",
    "undefined_order",
]

HOST_LANE = "host"
HOST_KINDS: tuple[EventKind, ...] = (
    "launch",
    "graph_launch",
    "sync",
    "python",
    "compile",
    "alloc",
)
"""The kinds on the host's lane; all other kinds lie on the lane of a stream."""
COPY_KINDS: tuple[CopyKind, ...] = ("h2d_pageable", "h2d_pinned", "d2h", "d2d")


@dataclass(frozen=True, slots=True)
class Event:
    """One event on one lane. Times are microseconds from the start of the recording.

    A *host* event lies on the lane "host": `launch`, `graph_launch`, `sync`, `python`, which is the
    program's own work between calls, `compile`, whose `call` says what was new about the key, or
    `alloc`, a call of the driver's allocator. A *device* event (`kernel`, `copy`, `memset`) lies on
    the lane of its stream, "stream 0" being the default one.
    `launched_by` of a device event is the index, in `Timeline.events`, of the host call that
    launched it. `pageable` is True for a copy from or to pageable host memory: the driver takes
    part in it, and may make the host wait. `allowed` is True for an event inside `allow_host_sync`.
    `thread` is the name of the thread that made the call, None for the thread that recorded. For a
    wait, and for the launch of a copy, `call` is the PyTorch call that led to it, such as `item` or
    `__getitem__(mask)`, and `operator` the ATen operator, such as `nonzero`, if they are known.
    """

    kind: EventKind
    name: str
    lane: str
    start: float
    duration: float
    source: SourceLine | None = None
    copy_kind: CopyKind | None = None
    bytes: int = 0
    launched_by: int | None = None
    pageable: bool = False
    allowed: bool = False
    thread: str | None = None
    call: str | None = None
    operator: str | None = None

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def on_device(self) -> bool:
        return self.lane != HOST_LANE


@dataclass(frozen=True, slots=True)
class Step:
    """A named part of the host's time, such as one step of an engine: from `start` to `end`, in
    microseconds of the recording."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Hazard:
    """A race that sim can prove: two lines that use one buffer in the wrong order."""

    kind: HazardKind
    message: str
    first: SourceLine | None
    second: SourceLine | None

    def __str__(self) -> str:
        return self.message
