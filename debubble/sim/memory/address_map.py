"""Finds the allocation that an address lies in: device memory of sim, or pinned host memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import ref as weak

import numpy as np

from debubble.contract.addresses import MemoryRange

from .blocks import ALLOCATIONS, Allocations, Block

NOWHERE, DEVICE, PINNED = 0, 1, 2
"""The codes of places. Pageable host memory, null, and addresses outside all allocations are
NOWHERE."""
CODES = {"device": DEVICE, "pinned": PINNED}


@dataclass(frozen=True, slots=True)
class Places:
    """The places of N address ranges, and the blocks that they lie in."""

    code: np.ndarray
    """int8 [N]: NOWHERE, DEVICE or PINNED for the first byte of each range."""
    fits: np.ndarray
    """bool [N]: True if the whole range lies in the allocation of its first byte, or in adjacent
    pinned ones."""
    blocks: list[Block]
    """All blocks that the fitting ranges touch."""

    def held(self) -> list[object]:
        """Returns objects that keep the blocks' memory alive."""
        return [block.hold() for block in self.blocks]


class AddressMap:
    """A table of all known blocks, sorted by address. It is built again if blocks were added or
    freed since it was built and a look-up finds no block, or a freed one."""

    def __init__(self, allocations: Allocations = ALLOCATIONS) -> None:
        self._allocations = allocations
        self._made_at = -1
        self._make()

    def range_at(self, address: int) -> MemoryRange | None:
        """Returns the allocation that contains an address, joined with adjacent pinned ranges, or
        None if no allocation contains it."""
        places = self.look_up(np.array([address]), np.array([1]))
        if places.code[0] == NOWHERE:
            return None
        at = int(np.searchsorted(self._starts, address, "right")) - 1
        start = int(self._run_starts[at])
        return MemoryRange(places.blocks[0].place, start, int(self._run_ends[at]) - start)

    def look_up(self, starts: np.ndarray, sizes: np.ndarray) -> Places:
        """Returns the places of N ranges of at least one byte each: `starts`, `sizes` int64 [N]."""
        # A loop, because garbage collected meanwhile can make the new table too old as well.
        while (found := self._find(starts, starts + sizes)) is None:
            self._make()
        return found

    def _find(self, starts: np.ndarray, ends: np.ndarray) -> Places | None:
        """Returns the places of the ranges, or None if the table is too old to tell."""
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
        """Returns block number `at` of the table, or None if it was freed or moved."""
        block = self._blocks[at]()
        same = block is not None and block.span() == (self._starts[at], self._ends[at])
        return block if same else None

    def _make(self) -> None:
        self._made_at = self._allocations.changes
        blocks = [b for b in (r() for r in list(self._allocations.blocks.values())) if b]
        spans = sorted((*block.span(), CODES[block.place], i) for i, block in enumerate(blocks))
        # The first row, NOWHERE, stands for all addresses below the first block.
        lowest = np.iinfo(np.int64).min
        with_bytes = (span for span in spans if span[0] < span[1])
        table = np.array([(lowest, lowest, NOWHERE, -1), *with_bytes], np.int64)
        self._starts, self._ends, self._codes = (np.ascontiguousarray(c) for c in table.T[:3])
        self._blocks: list[Callable[[], Block | None]] = [_nothing]
        self._blocks += (weak(blocks[i]) for i in table[1:, 3].tolist())
        self._find_runs()

    def _find_runs(self) -> None:
        """Joins adjacent pinned ranges, which may be one buffer that was registered in parts."""
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
