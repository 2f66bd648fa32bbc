"""A log of which access touched which bytes, with which accesses by address are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from .blocks import Access, Block, Past, Span
from .pieces import span_of
from .range_table import RangeTable, Rows

STREAM, ORDER, WRITES, BY_ADDRESS, NUMBER = range(5)
"""The columns of a logged range: the stream's number, the access's place in its queue, 1 for a
write, 1 for an access by address, and the number of the access."""

Knowledge = Callable[[int], int]
"""A function from a stream's number to how many of its items are known to come before some later
work."""


class Touch(NamedTuple):
    """N ranges of bytes that one access reads, or that it writes: `starts` and `ends`, int64
    [N]."""

    starts: np.ndarray
    ends: np.ndarray
    writes: bool
    at_any_time: bool = False
    """True if the access may happen as soon as the host queues it, before its stream gets there."""


def range_of(past: Past) -> Span:
    if isinstance(past.where, tuple):
        return past.where
    return span_of(past.where) if isinstance(past.where, torch.Tensor) else past.where.span()


def touches_of(past: Past) -> list[Touch]:
    """Returns the byte ranges of a past access as touches, or [] if it touched no byte."""
    if not isinstance(past.where, (tuple, torch.Tensor)):
        starts, ends = past.where.ranges()
        return [Touch(starts, ends, past.wrote)] if len(starts) else []
    start, end = range_of(past)
    return [Touch(np.array([start]), np.array([end]), past.wrote)] if start < end else []


class Conflict(NamedTuple):
    access: Access
    wrote: bool
    at_any_time: bool
    """True if the new access may happen as soon as it is queued. A wait in its stream then doesn't
    order it after the logged access."""


class AccessLog:
    """The ranges of bytes that accesses touched, in allocations that are used by address, as long
    as they can be part of a race.

    A row is dropped once the host knows its work to be done, once its memory is freed, or once a
    later access that waited for it covers it: work ordered after the later access is also ordered
    after the earlier one. So the log of a small pool of blocks stays small, no matter how many
    transfers go through it.
    """

    def __init__(self) -> None:
        self._table = RangeTable()
        self._accesses: dict[int, Access] = {}
        self._count, self._forget_at = 0, 64
        self._freed: list[Span] = []
        self._followed: set[_Follower] = set()

    def __len__(self) -> int:
        return len(self._table)

    def follow(self, block: Block) -> None:
        """Starts to log the accesses to this allocation, and moves its earlier accesses by tensors
        into the log."""
        if block.log is self:
            return
        self._drop_freed()
        block.log = self
        follower = _Follower(block.span(), self._freed, self._followed)
        self._followed.add(follower)
        block.watch(follower)
        pasts, block.past = block.past or [], None
        if block.made_by is not None:
            pasts.append(Past(block.made_by, block.span(), True))
        for past in pasts:
            for touch in touches_of(past):
                self._insert(touch, past.access, by_address=False)

    def add(
        self,
        access: Access,
        touches: list[Touch],
        known: Knowledge,
        known_to_host: Knowledge,
        *,
        by_address: bool,
    ) -> list[Conflict]:
        """Adds an access, and returns a conflict for each logged access to the same bytes that
        nothing orders before it, if one of the two writes. Doesn't compare two accesses by tensors.
        `known` covers the work that the stream has waited for, and all of its own work."""
        self._drop_freed()
        conflicts: dict[Access, Conflict] = {}
        for touch in touches:
            for rows in self._table:
                knowledge = known_to_host if touch.at_any_time else known
                self._compare(rows, touch, knowledge, by_address, conflicts)
        for touch in touches:
            self._insert(touch, access, by_address)
        return list(conflicts.values())

    def ranges_by(self, access: Access, wrote: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the starts and ends, int64 [N] each, of the ranges that an access by tensors
        wrote, or that it read if `wrote` is False."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for rows in self._table:
            values = rows.values
            which = (values[:, STREAM] == access.stream) & (values[:, ORDER] == access.order)
            which &= rows.are_left & (values[:, WRITES] == wrote) & (values[:, BY_ADDRESS] == 0)
            found.append((rows.starts[which], rows.ends[which]))
        starts, ends = zip(*found, strict=True)
        return np.concatenate(starts), np.concatenate(ends)

    def host_saw(self, known: Knowledge) -> None:
        """Drops the ranges of work that the host knows to be done, by `known`."""
        for rows in self._table:
            rows.drop(rows.values[:, ORDER] <= _limits(rows, known))
        self._forget_accesses()

    def _compare(
        self,
        rows: Rows,
        touch: Touch,
        known: Knowledge,
        by_address: bool,
        conflicts: dict[Access, Conflict],
    ) -> None:
        found, ranges = rows.overlapping(touch.starts, touch.ends)
        if len(found) == 0:
            return
        values = rows.values[found]
        in_order = np.zeros(len(found), bool)
        for stream in set(values[:, STREAM].tolist()):
            in_order |= (values[:, STREAM] == stream) & (values[:, ORDER] <= known(stream))
        wrote = values[:, WRITES] == 1
        matters = ~in_order & (wrote | touch.writes) & (by_address | (values[:, BY_ADDRESS] == 1))
        for number, wrote_it in zip(values[matters, NUMBER].tolist(), wrote[matters], strict=True):
            other = self._accesses[number]
            if wrote_it or other not in conflicts:
                conflicts[other] = Conflict(other, bool(wrote_it), touch.at_any_time)
        covers = (touch.starts[ranges] <= rows.starts[found]) & (
            touch.ends[ranges] >= rows.ends[found]
        )
        rows.drop(found[in_order & covers & (touch.writes | ~wrote)])

    def _insert(self, touch: Touch, access: Access, by_address: bool) -> None:
        if len(touch.starts) == 0:
            return
        self._count += 1
        self._accesses[self._count] = access
        row = [access.stream, access.order, touch.writes, by_address, self._count]
        values = np.broadcast_to(np.array(row, np.int64), (len(touch.starts), len(row)))
        self._table.insert(touch.starts, touch.ends, values)
        if self._count > self._forget_at:
            self._forget_accesses()

    def _drop_freed(self) -> None:
        while self._freed:
            start, end = self._freed.pop()
            for rows in self._table:
                rows.drop((rows.ends > start) & (rows.starts < end))

    def _forget_accesses(self) -> None:
        """Forgets the accesses of which all ranges were dropped."""
        alive = {n for rows in self._table for n in np.unique(rows.values[:, NUMBER]).tolist()}
        self._accesses = {n: access for n, access in self._accesses.items() if n in alive}
        self._forget_at = self._count + max(64, len(alive))


class _Follower:
    """A watcher of one allocation. When it is freed, notes its addresses, which may be reused, for
    the log to drop its rows later: memory may be freed at any line."""

    def __init__(self, span: Span, freed: list[Span], followed: set[_Follower]) -> None:
        self._span, self._freed, self._followed = span, freed, followed

    def freed(self) -> None:
        self._freed.append(self._span)
        self._followed.discard(self)


def _limits(rows: Rows, known: Knowledge) -> np.ndarray:
    """Returns int64 [n]: for each row, how many items of its stream are known to come first."""
    streams, which = np.unique(rows.values[:, STREAM], return_inverse=True)
    return np.array([known(stream) for stream in streams.tolist()], np.int64)[which]
