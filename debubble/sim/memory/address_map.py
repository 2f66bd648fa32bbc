"""Which allocation an address lies in: device memory of sim, or pinned host memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import ref as weak

import numpy as np

from debubble.contract.addresses import MemoryRange

from .blocks import ALLOCATIONS, Allocations, Block

NOWHERE, DEVICE, PINNED = 0, 1, 2
"""Pageable host memory, null, and what is nobody's are nowhere."""
CODES = {"device": DEVICE, "pinned": PINNED}


@dataclass(frozen=True, slots=True)
class Places:
    """Of N ranges: where each begins, and whether all of it lies there."""

    code: np.ndarray
    """[N] int8"""
    fits: np.ndarray
    """[N] bool"""
    blocks: list[Block]
    """All that the ranges touch."""

    def held(self) -> list[object]:
        """What keeps their memory."""
        return [block.hold() for block in self.blocks]


class AddressMap:
    """Looks blocks up in a table that it makes again when one came or went since, and only if a
    look-up then finds nothing, or what is gone."""

    def __init__(self, allocations: Allocations = ALLOCATIONS) -> None:
        self._allocations = allocations
        self._made_at = -1
        self._make()

    def range_at(self, address: int) -> MemoryRange | None:
        """The largest range around an address: pinned ranges side by side count as one."""
        places = self.look_up(np.array([address]), np.array([1]))
        if places.code[0] == NOWHERE:
            return None
        at = int(np.searchsorted(self._starts, address, "right")) - 1
        start = int(self._run_starts[at])
        return MemoryRange(places.blocks[0].place, start, int(self._run_ends[at]) - start)

    def look_up(self, starts: np.ndarray, sizes: np.ndarray) -> Places:
        """Of ranges of at least one byte: `starts`, `sizes` int64 [N]."""
        # Again, if garbage is collected meanwhile: a new table may be too old as well.
        while (found := self._find(starts, starts + sizes)) is None:
            self._make()
        return found

    def _find(self, starts: np.ndarray, ends: np.ndarray) -> Places | None:
        """None if the table is too old to say."""
        at = np.searchsorted(self._starts, starts, "right") - 1
        is_there = starts < self._ends[at]
        fits = is_there & (ends <= self._run_ends[at])
        touched = np.zeros(len(self._starts) + 1, np.int64)
        np.add.at(touched, at[fits], 1)
        np.add.at(touched, np.searchsorted(self._starts, ends[fits], "left"), -1)
        blocks = [self._known(i) for i in np.flatnonzero(touched.cumsum()).tolist()]
        if self._made_at != self._allocations.changes and not (fits.all() and all(blocks)):
            return None
        code = np.where(is_there, self._codes[at], NOWHERE).astype(np.int8)
        return Places(code, fits, [b for b in blocks if b])

    def _known(self, at: int) -> Block | None:
        """A block of the table, if it still lies where it did."""
        block = self._blocks[at]()
        same = block is not None and block.span() == (self._starts[at], self._ends[at])
        return block if same else None

    def _make(self) -> None:
        self._made_at = self._allocations.changes
        blocks = [b for b in (r() for r in list(self._allocations.blocks.values())) if b]
        spans = sorted((*block.span(), CODES[block.place], i) for i, block in enumerate(blocks))
        # The first stands for what lies below all others, and is nowhere.
        lowest = np.iinfo(np.int64).min
        with_bytes = (span for span in spans if span[0] < span[1])
        table = np.array([(lowest, lowest, NOWHERE, -1), *with_bytes], np.int64)
        self._starts, self._ends, self._codes = (np.ascontiguousarray(c) for c in table.T[:3])
        self._blocks: list[Callable[[], Block | None]] = [_nothing]
        self._blocks += (weak(blocks[i]) for i in table[1:, 3].tolist())
        self._find_runs()

    def _find_runs(self) -> None:
        """Pinned ranges side by side may be one buffer that was registered in parts."""
        goes_on = (
            (self._starts[1:] == self._ends[:-1])
            & (self._codes[1:] == PINNED)
            & (self._codes[:-1] == PINNED)
        )
        first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
        run = np.cumsum(np.concatenate([[True], ~goes_on])) - 1
        last = np.concatenate([first[1:] - 1, [len(self._starts) - 1]])
        self._run_starts, self._run_ends = self._starts[first][run], self._ends[last][run]


def _nothing() -> None:
    return None
