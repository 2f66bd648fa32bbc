"""Downloads in flight to pinned host memory, whose targets hold poison until the bytes arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from debubble.contract.source_line import SourceLine

from .pieces import Pieces
from .range_table import RangeTable

POISON_BYTE = 0xFF
"""The byte of the poison: NaN in every floating point type, -1 in every signed integer type."""
NUMBER, OFFSET = range(2)
"""The columns of the table: the download's number, and the position in its result of the range's
first byte."""


@dataclass(slots=True, eq=False)
class Download:
    host: Pieces
    result: np.ndarray
    """The bytes that will arrive in host memory, uint8 [nbytes of host]."""
    source: SourceLine | None
    number: int = 0


class Overlay(NamedTuple):
    """Bytes in flight that belong into a copy of some pieces: `nbytes` bytes of a download's
    result, from `offset` on, which `put` copies into the pieces' flat array from `start` on."""

    download: Download
    offset: int
    start: int
    nbytes: int

    def put(self, flat: np.ndarray) -> None:
        result = self.download.result[self.offset : self.offset + self.nbytes]
        flat[self.start : self.start + self.nbytes] = result


class Arrivals:
    """The downloads in flight, by address. A range that a later download covers is dropped from the
    earlier one."""

    def __init__(self) -> None:
        self._table = RangeTable()
        self._downloads: dict[int, Download] = {}
        self._count = 0
        self._first, self._end = 0, 0
        """The first address of all bytes in flight, and the address after the last."""

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
        """Ends a download: writes its bytes to host memory. Bytes that a later download also writes
        hold poison until that one ends."""
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
        """Returns an overlay for each range of these pieces that is in flight, the latest last."""
        found: list[tuple[int, int, int, int]] = []
        for shared, columns in self._shared_with(pieces):
            found += zip(*(c.tolist() for c in (*columns, shared.sizes)), strict=True)
        return [Overlay(self._downloads[number], *where) for number, *where in sorted(found)]

    def at(self, start: int, end: int) -> Download | None:
        """Returns the latest download in flight to the addresses `start` to `end - 1`, or None."""
        if start == end or end <= self._first or start >= self._end:
            return None
        overlays = self.over(Pieces(np.array([start]), np.array([end - start])))
        return overlays[-1].download if overlays else None

    def _shared_with(self, pieces: Pieces) -> Iterator[tuple[Pieces, tuple[np.ndarray, ...]]]:
        """Yields those bytes of the pieces that are in flight, with three arrays: the downloads'
        numbers, the offsets in the downloads' results, and the offsets in the pieces' flat
        array."""
        for rows in self._table if self else ():
            found, which = rows.overlapping(pieces.starts, pieces.ends)
            starts = np.maximum(rows.starts[found], pieces.starts[which])
            ends = np.minimum(rows.ends[found], pieces.ends[which])
            offsets = rows.values[found, OFFSET] + starts - rows.starts[found]
            into = pieces.offsets[which] + starts - pieces.starts[which]
            yield Pieces(starts, ends - starts), (rows.values[found, NUMBER], offsets, into)
