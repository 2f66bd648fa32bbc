"""The host's side of a trace: what each thread was doing at each moment, and for which code."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..contract.source_line import SourceLine
from .names import WAITS, function_line
from .rows import ANNOTATION, DRIVER, FUNCTION, NONE, OPERATOR, RUNTIME, Integers, Rows

SYNC, ALLOCATION, LAUNCH, OPERATORS, PYTHON, LOADER, LOCK, OUTSIDE = range(8)
DOING = (
    "waiting for the device",
    "allocating memory",
    "launching",
    "PyTorch's operators",
    "Python",
    "waiting for a data loader",
    "waiting for a lock or a queue",
    "outside of PyTorch",
)
"""The host's activities, in the order of the numbers above. A trace without stacks has no Python:
the time between two operators is "outside of PyTorch"."""
ALLOCATES = re.compile(r"^cu(da)?(Malloc|Free|HostAlloc|Mem(Alloc|Free|Create|Map|Release|Unmap))")
LOCKS = re.compile(
    r"^<built-in method (acquire|wait|poll|select|sleep|recv|read|join)\b|"
    r"^(threading|queue|selectors|multiprocessing/.*)\.py\(\d+\): "
    r"(wait|acquire|get|put|join|select)\b"
)
LOADERS = ("enumerate(DataLoader)",)
CALLS = (RUNTIME, DRIVER)
ATEN = "aten::"


class Doing(NamedTuple):
    """The activity of a thread in a stretch: one of the numbers above, the innermost function of
    the user's and the innermost operator, as places in `Rows.names` or NONE."""

    kind: int
    function: int
    operator: int


NOTHING = Doing(OUTSIDE, NONE, NONE)


class Place(NamedTuple):
    """An activity in words: its number, the function's first line, and the operator's name."""

    kind: int
    source: SourceLine | None
    operator: str | None


class Thread(NamedTuple):
    """One thread's stretches in order: each lasts from its start to the next one's. `doing` has the
    place in `Host.kinds` of each."""

    starts: array[float]
    doing: array[int]


class Host:
    """The activities of all threads that call CUDA, by their track, and the place in `kinds` of the
    activity of each CUDA call, by its row. `tracks` has the thread of each row."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.tracks = rows, threads_of_calls(rows)
        self.kinds: list[Doing] = []
        self.threads: dict[int, Thread] = {}
        self.of_call: dict[int, int] = {}
        self._lines: dict[int, SourceLine | None] = {NONE: None}

    def line(self, function: int) -> SourceLine | None:
        """Returns the first line of a function of the user's, or None for any other name."""
        if function not in self._lines:
            self._lines[function] = function_line(self.rows.names[function])
        return self._lines[function]

    def operator(self, name: int) -> str | None:
        return None if name == NONE else self.rows.names[name].removeprefix(ATEN)

    @cached_property
    def places(self) -> list[Place]:
        """The place of each kind of activity; the last one, of number NONE, is that of no
        thread."""
        return [
            Place(kind, self.line(function), self.operator(operator))
            for kind, function, operator in [*self.kinds, NOTHING]
        ]

    def doing(self, track: int, time: float) -> Doing:
        """Returns a thread's activity at a time of the trace."""
        starts, doing = self.threads[track]
        at = bisect_right(starts, time) - 1
        return self.kinds[doing[at]] if at >= 0 else NOTHING

    def times(self, track: int, start: float, end: float) -> dict[int, float]:
        """Returns the microseconds of each kind of activity of a thread between two times of the
        trace."""
        starts, doing = self.threads[track]
        at, last = bisect_right(starts, start) - 1, len(starts) - 1
        times: dict[int, float] = {}
        while start < end:
            until = end if at >= last or starts[at + 1] > end else starts[at + 1]
            if until > start:
                kind = doing[at] if at >= 0 else NONE
                times[kind] = times.get(kind, 0.0) + until - start
                start = until
            at += 1
        return times


def threads_of_calls(rows: Rows) -> Integers:
    """Returns the track of each row, corrected for CUDA calls. The trace names a call's thread by
    an address that a later thread may get as well; the operator that makes the call names the
    thread itself."""
    tracks = rows.track.astype(np.int64)
    operators, calls = rows.of(OPERATOR), rows.of(*CALLS)
    operators = operators[rows.external[operators] != NONE]
    order = operators[np.argsort(rows.external[operators], kind="stable")]
    if len(order) and len(calls):
        known = rows.external[order]
        found = np.minimum(np.searchsorted(known, rows.external[calls]), len(known) - 1)
        same = known[found] == rows.external[calls]
        tracks[calls[same]] = tracks[order[found[same]]]
    return tracks


class Reader:
    """Reads the rows of threads, nested in each other. What a row does inside another is found once
    for each pair of them: traces repeat."""

    OF_THREADS: tuple[int, ...] = CALLS
    """The categories of rows that a thread needs one of to be read."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.host = rows, Host(rows)
        self.numbers: dict[Doing, int] = {}

    def read(self) -> Host:
        rows, tracks = self.rows, self.host.tracks
        on_host = rows.of(OPERATOR, ANNOTATION, FUNCTION, *CALLS)
        of_track = tracks[on_host]
        for track in np.unique(tracks[rows.of(*self.OF_THREADS)]).tolist():
            mine = on_host[of_track == track]
            order = mine[np.lexsort((-rows.duration[mine], rows.start[mine]))]
            self.host.threads[track] = self.thread(order)
        return self.host

    def thread(self, order: Integers) -> Thread:
        """Returns a thread's stretches. `order` has its rows by start, the longer one first."""
        rows, kinds, of_call = self.rows, self.host.kinds, self.host.of_call
        starts, doing = array("d"), array("q")
        inside: dict[tuple[int, int, int], int] = {}
        outside = self.number(NOTHING)
        open_rows = [(float("inf"), outside)]
        reached = -float("inf")

        def close() -> None:
            nonlocal reached
            closed = open_rows.pop()[0]
            if closed >= reached:
                reached = closed
                starts.append(closed)
                doing.append(open_rows[-1][1])

        begins = rows.start[order].tolist()
        ends = (rows.start[order] + rows.duration[order]).tolist()
        categories, names = rows.category[order].tolist(), rows.name[order].tolist()
        for row, begin, end, category, name in zip(
            order.tolist(), begins, ends, categories, names, strict=True
        ):
            while open_rows[-1][0] <= begin:
                close()
            around = open_rows[-1][1]
            key = around, category, name
            if key not in inside:
                inside[key] = self.number(self.state(kinds[around], category, name))
            around = inside[key]
            if category in CALLS:
                of_call[row] = around
            reached = max(reached, begin)
            starts.append(reached)
            doing.append(around)
            open_rows.append((end, around))
        while len(open_rows) > 1:
            close()
        return Thread(starts, doing)

    def number(self, state: Doing) -> int:
        number = self.numbers.setdefault(state, len(self.numbers))
        if number == len(self.host.kinds):
            self.host.kinds.append(state)
        return number

    def state(self, around: Doing, category: int, name: int) -> Doing:
        """Returns what a row does inside another that does `around`."""
        kind, function, operator = around
        text = self.rows.names[name]
        if category in CALLS:
            kind = SYNC if WAITS.search(text) else LAUNCH
            return Doing(ALLOCATION if ALLOCATES.match(text) else kind, function, operator)
        is_line = category == FUNCTION and self.host.line(name) is not None
        if kind in (LOADER, LOCK):
            return Doing(kind, name, operator) if is_line else around
        if category == OPERATOR:
            return Doing(OPERATORS, function, name if text.startswith(ATEN) else operator)
        if category == ANNOTATION:
            is_loader = text.startswith(LOADERS)
            return Doing(LOADER, function, operator) if is_loader else around
        waits = LOCK if LOCKS.match(text) else PYTHON
        return Doing(waits, name if is_line else function, operator)
