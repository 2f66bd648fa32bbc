"""The host's side of a trace: what each thread was doing at each moment, and for which code."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..contract.source_line import SourceLine
from .names import function_line
from .rows import (
    ANNOTATION,
    DRIVER,
    FUNCTION,
    NONE,
    OPERATOR,
    RUNTIME,
    Floats,
    Integers,
    Rows,
)

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


class Doing(NamedTuple):
    """The activity of a thread in a stretch: one of the numbers above, the innermost function of
    the user's and the innermost operator, as places in `Rows.names` or NONE."""

    kind: int
    function: int
    operator: int


@dataclass
class Thread:
    """One thread's stretches in order: each lasts from its start to the next one's."""

    starts: Floats
    doing: Integers
    """A place in `Host.kinds` for each stretch."""


@dataclass
class Host:
    """All threads that call CUDA, by their track, and what each call was made for."""

    kinds: list[Doing]
    threads: dict[int, Thread]
    of_call: dict[int, Doing]
    """The activity that each CUDA call is part of, by its row."""


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


def read_host(rows: Rows) -> Host:
    """Returns what every thread that calls CUDA was doing, from its rows nested in each other."""
    tracks = threads_of_calls(rows)
    host = Host([], {}, {})
    on_host = rows.of(OPERATOR, ANNOTATION, FUNCTION, *CALLS)
    of_track = tracks[on_host]
    reader = _Reader(rows, host)
    for track in np.unique(tracks[rows.of(*CALLS)]).tolist():
        mine = on_host[of_track == track]
        order = mine[np.lexsort((-rows.duration[mine], rows.start[mine]))]
        host.threads[track] = reader.thread(order)
    return host


class _Reader:
    """Reads threads one after the other. What a row does inside another is found once for each
    pair of them: traces repeat."""

    def __init__(self, rows: Rows, host: Host) -> None:
        self.rows, self.host = rows, host
        self.numbers: dict[Doing, int] = {}
        self.lines = Lines(rows.names)

    def thread(self, order: Integers) -> Thread:
        """Returns a thread's stretches. `order` has its rows by start, the longer one first."""
        rows, kinds, of_call = self.rows, self.host.kinds, self.host.of_call
        starts, doing = array("d"), array("q")
        inside: dict[tuple[int, int, int], int] = {}
        outside = self.number(Doing(OUTSIDE, NONE, NONE))
        around, open_rows = outside, [(float("inf"), outside)]
        reached = -float("inf")
        begins = rows.start[order].tolist()
        ends = (rows.start[order] + rows.duration[order]).tolist()
        categories, names = rows.category[order].tolist(), rows.name[order].tolist()
        for row, begin, end, category, name in zip(
            order.tolist(), begins, ends, categories, names, strict=True
        ):
            while open_rows[-1][0] <= begin:
                closed = open_rows.pop()[0]
                around = open_rows[-1][1]
                if closed >= reached:
                    reached = closed
                    starts.append(closed)
                    doing.append(around)
            key = around, category, name
            if key not in inside:
                inside[key] = self.number(self.state(kinds[around], category, name))
            around = inside[key]
            if category in CALLS:
                of_call[row] = kinds[around]
            if begin > reached:
                reached = begin
            starts.append(reached)
            doing.append(around)
            open_rows.append((end, around))
        while len(open_rows) > 1:
            closed = open_rows.pop()[0]
            if closed >= reached:
                reached = closed
                starts.append(closed)
                doing.append(open_rows[-1][1])
        return Thread(np.array(starts), np.array(doing))

    def number(self, state: Doing) -> int:
        found = self.numbers.get(state)
        if found is None:
            found = self.numbers[state] = len(self.host.kinds)
            self.host.kinds.append(state)
        return found

    def state(self, around: Doing, category: int, name: int) -> Doing:
        """Returns what a row does inside another that does `around`."""
        kind, function, operator = around
        text = self.rows.names[name]
        if category in CALLS:
            kind = SYNC if "Synchronize" in text else LAUNCH
            return Doing(ALLOCATION if ALLOCATES.match(text) else kind, function, operator)
        if kind in (LOADER, LOCK):
            return around
        if category == OPERATOR:
            return Doing(OPERATORS, function, name if text.startswith("aten::") else operator)
        if category == ANNOTATION:
            is_loader = text.startswith(LOADERS)
            return Doing(LOADER, function, operator) if is_loader else around
        waits = LOCK if LOCKS.match(text) else PYTHON
        return Doing(waits, function if self.lines(name) is None else name, operator)


class Lines:
    """The source lines of functions, each made once."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._known: dict[int, SourceLine | None] = {NONE: None}

    def __call__(self, function: int) -> SourceLine | None:
        if function not in self._known:
            self._known[function] = function_line(self._names[function])
        return self._known[function]
