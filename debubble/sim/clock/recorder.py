"""The events of one recording of the simulated device."""

from __future__ import annotations

import threading
from dataclasses import replace

from debubble.contract.compiles import COMPILATION
from debubble.contract.host_syncs import HOST_SYNC
from debubble.contract.source_line import SourceLine
from debubble.timeline.event import HOST_LANE, CopyKind, Event, EventKind
from debubble.timeline.threads import name_of


class Recorder:
    """Collects the events of a recording that began at `time_zero` (microseconds). It is full after
    `most_calls` calls of the host."""

    def __init__(self, time_zero: float, most_calls: int | None = None) -> None:
        self.events: list[Event] = []
        self.is_full = False
        self.unmeasured: set[str] = set()
        """The operators whose kernel counts were never measured on a GPU."""
        self._time_zero, self._calls_left = time_zero, most_calls
        self._thread = threading.get_ident()
        self._lock = threading.RLock()  # A finalizer that runs in here may note something too.

    def note(
        self,
        kind: EventKind,
        name: str,
        lane: str,
        start: float,
        duration: float,
        source: SourceLine | None,
        copy_kind: CopyKind | None = None,
        nbytes: int = 0,
        launched_by: int | None = None,
        pageable: bool = False,
        call: str | None = None,
        operator: str | None = None,
    ) -> int | None:
        """Adds an event and returns its index, or None if there is no room for it."""
        with self._lock:
            if not self._has_room(lane, launched_by):
                return None
            self.events.append(
                Event(
                    kind,
                    name,
                    lane,
                    start - self._time_zero,
                    duration,
                    source,
                    copy_kind,
                    nbytes,
                    launched_by,
                    pageable,
                    COMPILATION.is_allowed() if kind == "compile" else HOST_SYNC.is_allowed(),
                    self._thread_name(),
                    call,
                    operator,
                )
            )
            return len(self.events) - 1

    def lengthen(self, index: int | None, duration: float) -> None:
        if index is not None:
            self.events[index] = replace(self.events[index], duration=duration)

    def _thread_name(self) -> str | None:
        """Returns the running thread's name, or None if it is the thread that records."""
        if threading.get_ident() == self._thread:
            return None
        return name_of(threading.current_thread())

    def _has_room(self, lane: str, launched_by: int | None) -> bool:
        """Returns True if there is room for the event. Device work has room if its launch was
        noted; a host event takes one of the calls that are left."""
        if self._calls_left is None:
            return True
        if lane != HOST_LANE:
            return launched_by is not None
        self.is_full = self._calls_left == 0
        self._calls_left -= not self.is_full
        return not self.is_full
