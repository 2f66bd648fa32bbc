"""The queue of launches: when the host can launch, and when kernels and copies begin and end."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from debubble.timeline.event import CopyKind

from .action import Action
from .copy_engine import CopyEngine
from .cost import CostModel

MOST_QUEUED = 1024
"""The number of launches in a device's queue. When it is full, the host waits for the oldest launch
to start."""
ENGINES: dict[CopyKind | None, str] = {
    "h2d_pinned": "in",
    "h2d_pageable": "in",
    "d2h": "out",
}


class Stream(Protocol):
    """The part of a stream that the queue uses."""

    free_at: float
    """The time at which the last work queued on it ends."""
    submitted: int
    """The number of items queued on it so far."""


class LaunchQueue:
    """The queue of one device and its copy engines. All times are modelled microseconds."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._engines = {"in": CopyEngine(), "out": CopyEngine()}
        self._starts: deque[float] = deque(maxlen=MOST_QUEUED)
        self.has_room_at = 0.0
        """The time from which on the queue has room for the next launch."""

    def book(
        self, action: Action, stream: Stream, now: float, *, in_graph: bool = False
    ) -> tuple[float, float]:
        """Queues the action, launched at `now`, on a stream. Returns its start and duration. It is
        `in_graph` if the launch before it on the stream belongs to the same replay."""
        gap = self._cost.graph_gap_us if in_graph else self._cost.gap_us
        start = max(now + self._cost.start_latency_us, stream.free_at + gap)
        duration = self._cost.duration(action)
        engine = ENGINES.get(action.copy_kind)
        if engine:
            start += self._cost.copy_starts_after(action)
            start = self._engines[engine].book(start, duration, now)
        stream.free_at = start + duration
        stream.submitted += 1
        self._starts.append(start)
        if len(self._starts) == MOST_QUEUED:
            self.has_room_at = self._starts[0]
        return start, duration
