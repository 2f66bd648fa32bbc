"""Bytes on their way to pinned host memory: there is poison where they will be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from debubble.contract.source_line import SourceLine

from .pieces import Pieces
from .range_table import RangeTable

POISON_BYTE = 0xFF
"""NaN in every floating point type, -1 in every integer."""
NUMBER, OFFSET = range(2)
"""Columns of the table: the download, and where its result holds the range's first byte."""


@dataclass(slots=True, eq=False)
class Download:
    host: Pieces
    result: np.ndarray
    """uint8 [nbytes of host]: what will be there."""
    source: SourceLine | None
    number: int = 0


class Overlay(NamedTuple):
    """Bytes of some pieces that are still on their way: `nbytes` from `start` of the pieces' flat
    array are those from `offset` of a download's result."""

    download: Download
    offset: int
    start: int
    nbytes: int

    def put(self, flat: np.ndarray) -> None:
        result = self.download.result[self.offset : self.offset + self.nbytes]
        flat[self.start : self.start + self.nbytes] = result


class Arrivals:
    """What is under way, by address. Where a later download covers an earlier one, nobody will see
    the bytes of the earlier one any more."""

    def __init__(self) -> None:
        self._table = RangeTable()
        self._downloads: dict[int, Download] = {}
        self._count = 0
        self._first, self._end = 0, 0
        """No byte under way lies outside of these addresses."""

    def __bool__(self) -> bool:
        return bool(self._downloads)

    def add(self, download: Download) -> None:
        host = download.host
        if len(host):
            first, end = int(host.starts.min()), int(host.ends.max())
            self._first = min(self._first, first) if self else first
            self._end = max(self._end, end) if self else end
        for rows in self._table:
            found, which = rows.overlapping(host.starts, host.ends)
            covered = (host.starts[which] <= rows.starts[found]) & (
                host.ends[which] >= rows.ends[found]
            )
            rows.drop(found[covered])
        self._count += 1
        download.number = self._count
        self._downloads[self._count] = download
        numbers = np.full(len(host), self._count)
        self._table.insert(host.starts, host.ends, np.stack([numbers, host.offsets], axis=1))
        host.fill(POISON_BYTE)

    def finish(self, download: Download) -> None:
        """Its bytes are there, but for those that a later one brings as well."""
        number = download.number
        del self._downloads[number]
        for rows in self._table:
            ours = np.flatnonzero(rows.are_left & (rows.values[:, NUMBER] == number))
            starts, ends = rows.starts[ours], rows.ends[ours]
            Pieces(starts, ends - starts, rows.values[ours, OFFSET]).scatter(download.result)
            rows.drop(ours)
        for shared, _ in self._shared_with(download.host):
            shared.fill(POISON_BYTE)

    def over(self, pieces: Pieces) -> list[Overlay]:
        """Where bytes of these pieces are under way; the latest comes last."""
        found: list[tuple[int, int, int, int]] = []
        for shared, columns in self._shared_with(pieces):
            found += zip(*(c.tolist() for c in (*columns, shared.sizes)), strict=True)
        return [Overlay(self._downloads[number], *where) for number, *where in sorted(found)]

    def at(self, start: int, end: int) -> Download | None:
        """One that brings bytes to this range, if there is one."""
        if start == end or end <= self._first or start >= self._end:
            return None
        overlays = self.over(Pieces(np.array([start]), np.array([end - start])))
        return overlays[-1].download if overlays else None

    def _shared_with(self, pieces: Pieces) -> Iterator[tuple[Pieces, tuple[np.ndarray, ...]]]:
        """The bytes of these pieces that are under way, with the numbers of the downloads, and
        where they are in the downloads' results and in the flat array of the pieces."""
        for rows in self._table if self else ():
            found, which = rows.overlapping(pieces.starts, pieces.ends)
            starts = np.maximum(rows.starts[found], pieces.starts[which])
            ends = np.minimum(rows.ends[found], pieces.ends[which])
            offsets = rows.values[found, OFFSET] + starts - rows.starts[found]
            into = pieces.offsets[which] + starts - pieces.starts[which]
            yield Pieces(starts, ends - starts), (rows.values[found, NUMBER], offsets, into)
