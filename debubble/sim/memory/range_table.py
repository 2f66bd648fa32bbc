"""A table of address ranges with numbers beside each, searched for what overlaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

GONE = np.iinfo(np.int64).min
"""The end of a row that was dropped: it overlaps nothing."""
LARGE = 8192
"""Rows that would take long to sort again for a few new ones."""


class Rows:
    """Ranges of about one length, in the order of their starts; `values` are int64 [n, columns]."""

    def __init__(self, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> None:
        self._sort(starts, ends, values)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def are_left(self) -> np.ndarray:
        """bool [n]: which were not dropped."""
        return self.ends != GONE

    def take_over(self, other: Rows) -> None:
        mine, others = self.are_left, other.are_left
        self._sort(
            np.concatenate([self.starts[mine], other.starts[others]]),
            np.concatenate([self.ends[mine], other.ends[others]]),
            np.concatenate([self.values[mine], other.values[others]]),
        )

    def drop(self, rows: np.ndarray) -> None:
        """By their numbers, which may come more than once, or bool [n]."""
        if len(rows) == 0:
            return
        self.ends[rows] = GONE
        left = self.are_left
        if 2 * np.count_nonzero(left) < len(self):
            self._sort(self.starts[left], self.ends[left], self.values[left])

    def overlapping(self, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All pairs (row, range) that share a byte, for ranges in any order."""
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
    """Rows by powers of two of their length: among long ranges short ones are hard to find."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[Rows]] = {}

    def __len__(self) -> int:
        return sum(int(np.count_nonzero(rows.are_left)) for rows in self)

    def __iter__(self) -> Iterator[Rows]:
        return (rows for parts in self._by_length.values() for rows in parts)

    def insert(self, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> None:
        """int64 [m], [m] and [m, columns]; every range holds a byte at least."""
        lengths = np.frexp((ends - starts).astype(np.float64))[1]
        for length in set(lengths.tolist()):
            which = lengths == length
            parts = self._by_length.setdefault(length, [])
            parts.append(Rows(starts[which], ends[which], values[which]))
            while len(parts) > 1 and len(parts[-2]) < max(LARGE, 2 * len(parts[-1])):
                last = parts.pop()
                parts[-1].take_over(last)
