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
    """Reads threads one after the other; what is known of a name is looked up once."""

    def __init__(self, rows: Rows, host: Host) -> None:
        self.rows, self.host = rows, host
        self.numbers: dict[Doing, int] = {}
        self.is_users: dict[int, bool] = {}
        self.kind_of: dict[int, int] = {}

    def thread(self, order: Integers) -> Thread:
        """Returns a thread's stretches. `order` has its rows by start, the longer one first."""
        rows = self.rows
        starts, doing = array("d"), array("q")
        outside = self.number(Doing(OUTSIDE, NONE, NONE))
        open_rows: list[tuple[float, Doing, int]] = []
        reached = -float("inf")
        begins = rows.start[order].tolist()
        ends = (rows.start[order] + rows.duration[order]).tolist()
        categories, names = rows.category[order].tolist(), rows.name[order].tolist()
        before = Doing(OUTSIDE, NONE, NONE)
        for row, begin, end, category, name in zip(
            order.tolist(), begins, ends, categories, names, strict=True
        ):
            while open_rows and open_rows[-1][0] <= begin:
                closed = open_rows.pop()[0]
                if closed >= reached:
                    reached = closed
                    starts.append(closed)
                    doing.append(open_rows[-1][2] if open_rows else outside)
            around = open_rows[-1][1] if open_rows else before
            state = self.state(around, category, name)
            if category in CALLS:
                self.host.of_call[row] = state
            number = self.number(state)
            reached = max(reached, begin)
            starts.append(reached)
            doing.append(number)
            open_rows.append((end, state, number))
        while open_rows:
            closed = open_rows.pop()[0]
            if closed >= reached:
                reached = closed
                starts.append(closed)
                doing.append(open_rows[-1][2] if open_rows else outside)
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
        if category in CALLS:
            return Doing(self.call_kind(name), function, operator)
        if kind in (LOADER, LOCK):
            return around
        if category == OPERATOR:
            return Doing(OPERATORS, function, name if self.is_aten(name) else operator)
        if category == ANNOTATION:
            is_loader = self.rows.names[name].startswith(LOADERS)
            return Doing(LOADER, function, operator) if is_loader else around
        waits = self.kind_of.get(name)
        if waits is None:
            text = self.rows.names[name]
            waits = self.kind_of[name] = LOCK if LOCKS.match(text) else PYTHON
        return Doing(waits, name if self.users(name) else function, operator)

    def call_kind(self, name: int) -> int:
        kind = self.kind_of.get(name)
        if kind is None:
            text = self.rows.names[name]
            kind = SYNC if "Synchronize" in text else LAUNCH
            kind = self.kind_of[name] = ALLOCATION if ALLOCATES.match(text) else kind
        return kind

    def is_aten(self, name: int) -> bool:
        return self.rows.names[name].startswith("aten::")

    def users(self, name: int) -> bool:
        known = self.is_users.get(name)
        if known is None:
            known = self.is_users[name] = function_line(self.rows.names[name]) is not None
        return known


class Lines:
    """The source lines of functions, each made once."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._known: dict[int, SourceLine | None] = {NONE: None}

    def __call__(self, function: int) -> SourceLine | None:
        if function not in self._known:
            self._known[function] = function_line(self._names[function])
        return self._known[function]
