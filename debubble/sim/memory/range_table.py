"""A table of address ranges with numbers for each, which can be searched for overlaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

GONE = np.iinfo(np.int64).min
"""The end that marks a dropped row, which then overlaps nothing."""
LARGE = 8192
"""The number of rows from which on a sorted group isn't merged with a few new rows, because it
would have to be sorted again."""


class Rows:
    """n ranges of similar length, sorted by their starts. `values` is int64 [n, columns]."""

    def __init__(self, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> None:
        self._sort(starts, ends, values)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def are_left(self) -> np.ndarray:
        """bool [n]: True for the rows that were not dropped."""
        return self.ends != GONE

    def take_over(self, other: Rows) -> None:
        mine, others = self.are_left, other.are_left
        self._sort(
            np.concatenate([self.starts[mine], other.starts[others]]),
            np.concatenate([self.ends[mine], other.ends[others]]),
            np.concatenate([self.values[mine], other.values[others]]),
        )

    def drop(self, rows: np.ndarray) -> None:
        """Drops the rows with these numbers, which may repeat, or the rows where a mask, bool [n],
        is True."""
        if len(rows) == 0:
            return
        self.ends[rows] = GONE
        left = self.are_left
        if 2 * np.count_nonzero(left) < len(self):
            self._sort(self.starts[left], self.ends[left], self.values[left])

    def overlapping(self, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns two int64 arrays, the number of a row and the number of a range, for each pair of
        a row and a given range that share a byte. The ranges may be in any order."""
        first = np.searchsorted(self._reach, starts, "right")
        counts = np.maximum(np.searchsorted(self.starts, ends, "left") - first, 0)
        ranges = np.repeat(np.arange(len(starts)), counts)
        steps = np.arange(len(ranges)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.repeat(first, counts) + steps
        truly = self.ends[rows] > starts[ranges]
        return rows[truly], ranges[truly]

    def _sort(self, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> None:
        order = np.argsort(starts, kind="stable")
        self.starts, self.ends, self.values = starts[order], ends[order], values[order]
        self._reach = np.maximum.accumulate(self.ends)


class RangeTable:
    """A table of address ranges with numbers. Its rows are grouped by powers of two of their
    lengths, because a search for short ranges among long ones is slow."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[Rows]] = {}

    def __len__(self) -> int:
        return sum(int(np.count_nonzero(rows.are_left)) for rows in self)

    def __iter__(self) -> Iterator[Rows]:
        return (rows for parts in self._by_length.values() for rows in parts)

    def insert(self, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> None:
        """Adds m ranges of at least one byte: int64 [m], [m] and [m, columns]."""
        lengths = np.frexp((ends - starts).astype(np.float64))[1]
        for length in set(lengths.tolist()):
            which = lengths == length
            parts = self._by_length.setdefault(length, [])
            parts.append(Rows(starts[which], ends[which], values[which]))
            while len(parts) > 1 and len(parts[-2]) < max(LARGE, 2 * len(parts[-1])):
                last = parts.pop()
                parts[-1].take_over(last)
