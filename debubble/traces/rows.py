"""The rows of a trace as columns: what is kept of each event of torch.profiler's file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..timeline.trace_format import TraceFileError
from .json_stream import JsonStream
from .text import Path

OPERATOR, ANNOTATION, FUNCTION, RUNTIME, DRIVER, OVERHEAD, KERNEL, COPY, MEMSET = range(9)
CATEGORIES = {
    "cpu_op": OPERATOR,
    "operator": OPERATOR,
    "user_annotation": ANNOTATION,
    "python_function": FUNCTION,
    "cuda_runtime": RUNTIME,
    "runtime": RUNTIME,
    "cuda_driver": DRIVER,
    "overhead": OVERHEAD,
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
}
"""The categories that are kept. The names beside Kineto's own are those of PyTorch before 1.13."""
NONE = -1
ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-f]+")
NAMES_WITH_ADDRESSES = ("<built-in", "<bound", "<")
COLUMNS = np.dtype(
    [("category", "u1"), ("name", "i4"), ("track", "i4"), ("start", "f8"), ("duration", "f8")]
    + [(name, "i8") for name in ("correlation", "external", "stream", "device", "bytes")]
)
IN_A_PART = 100_000
"""The rows that wait as Python's objects until they become columns."""
LATEST = 1e17
"""Microseconds, three thousand years: a later time is none."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Track(NamedTuple):
    """A row's lane as the file names it: process and thread, or device and stream."""

    process: object
    thread: object


@dataclass
class Rows:
    """The kept rows of a trace, one entry of each column for each row. Times are microseconds.

    `category` is one of the numbers above, `name` and `track` are places in `names` and `tracks`;
    `correlation`, `external`, `stream` and `device` are NONE where a row has none.
    """

    category: NDArray[np.uint8]
    name: NDArray[np.int32]
    track: NDArray[np.int32]
    start: Floats
    duration: Floats
    correlation: Integers
    external: Integers
    stream: Integers
    device: Integers
    bytes: Integers
    names: list[str]
    tracks: list[Track]
    header: dict[str, object]
    thread_names: dict[Track, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    def of(self, *categories: int) -> Integers:
        """Returns the places of all rows of these categories."""
        return np.flatnonzero(np.isin(self.category, categories))

    def named(self, name: str) -> Integers:
        """Returns the places of all rows of this name."""
        return np.flatnonzero(self.name == (self.names.index(name) if name in self.names else NONE))

    def text(self, row: int) -> str:
        return self.names[self.name[row]]

    def in_time(self, rows: Integers) -> Integers:
        """Returns rows in the order of their starts."""
        return rows[np.argsort(self.start[rows], kind="stable")]


class Collector:
    """Takes the events of a trace one after the other, and keeps their columns."""

    def __init__(self, damaged: Callable[[str], TraceFileError]) -> None:
        self._damaged = damaged
        self.events = 0
        self.names: dict[str, int] = {}
        self.bare: dict[str, int] = {}
        self.tracks: dict[tuple[object, object], int] = {}
        self.thread_names: dict[Track, str] = {}
        self._kept: list[tuple[float, ...]] = []
        self._parts: list[NDArray[np.void]] = []

    def add(self, event: object) -> None:
        """Keeps an event if it is a stretch of time of a known category. Raises TraceFileError for
        an event whose values no profiler writes."""
        self.events += 1
        try:
            if not isinstance(event, dict):
                raise ValueError("it is no object")
            phase = event["ph"]
            if phase == "X":
                category = CATEGORIES.get(str(event.get("cat")))
                if category is None:
                    category = CATEGORIES.get(str(event.get("cat")).lower())
                if category is not None:
                    self._keep(event, category)
            elif phase == "M" and event.get("name") == "thread_name":
                track = Track(event.get("pid"), event.get("tid"))
                self.thread_names[track] = str(event["args"]["name"])[:200]
        except KeyError as error:
            raise self._none_of_a_profiler(f"{error.args[0]!r} is missing") from None
        except ValueError as error:
            raise self._none_of_a_profiler(str(error)[:120]) from None
        except (TypeError, AttributeError, OverflowError):
            raise self._none_of_a_profiler("a value in it has another type") from None

    def _none_of_a_profiler(self, what: str) -> TraceFileError:
        return self._damaged(f"event {self.events:,} is none of a profiler: {what}")

    def _keep(self, event: dict[str, Any], category: int) -> None:
        start, duration = event["ts"], event.get("dur", 0)
        if not (duration >= 0 and -LATEST < start < LATEST and duration < LATEST):
            raise ValueError(f"it starts at {start!r} and lasts {duration!r} microseconds")
        name, args, thread = event["name"], event.get("args") or {}, event.get("tid")
        number = self.names.get(name)
        if number is None:
            number = self._name(name)
        track = event.get("pid"), thread
        place = self.tracks.get(track)
        if place is None:
            place = self.tracks[track] = len(self.tracks)
        ids = int(args.get("correlation", NONE)), int(args.get("External id", NONE))
        stream, device, nbytes = NONE, NONE, 0
        if category >= KERNEL:
            stream = int(args.get("stream", thread if isinstance(thread, int) else NONE))
            device, nbytes = int(args.get("device", NONE)), int(args.get("bytes", 0))
        kept = (category, number, place, start, duration, *ids, stream, device, nbytes)
        self._kept.append(kept)
        if len(self._kept) == IN_A_PART:
            self._pack()

    def _pack(self) -> None:
        try:
            self._parts.append(np.array(self._kept, COLUMNS))
        except OverflowError:
            raise self._damaged(f"a number before event {self.events + 1:,} is too large") from None
        self._kept.clear()

    def _name(self, name: str) -> int:
        """Returns the number of a new name. Names that differ only in an object's address are
        one."""
        bare = ADDRESS.sub("", name) if name.startswith(NAMES_WITH_ADDRESSES) else name
        number = self.bare.setdefault(bare, len(self.bare))
        if bare is name or len(self.names) < 100_000:
            self.names[name] = number
        return number

    def rows(self, header: dict[str, object]) -> Rows:
        self._pack()
        columns = np.concatenate(self._parts)
        self._parts.clear()
        return Rows(
            **{name: np.ascontiguousarray(columns[name]) for name in COLUMNS.names or ()},
            names=list(self.bare),
            tracks=[Track(*track) for track in self.tracks],
            header=header,
            thread_names=self.thread_names,
        )


def read_rows(path: Path) -> Rows:
    """Returns the rows of a trace that torch.profiler wrote, plain or packed by gzip. Raises
    TraceFileError, with the place, for a file that is none or is damaged."""
    stream = JsonStream(path)
    collector = Collector(stream.damaged)
    header = stream.read(collector.add)
    written_by = header.get("otherData")
    if isinstance(written_by, dict) and written_by.get("written by") == "debubble":
        raise stream.damaged(
            "debubble itself wrote it for a viewer, so open the timeline that it was made from"
        )
    rows = collector.rows(header)
    if not len(rows):
        raise stream.damaged(
            "it has no operators, calls or kernels of torch.profiler among "
            f"{collector.events:,} events"
        )
    return rows
