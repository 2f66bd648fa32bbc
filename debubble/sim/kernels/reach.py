"""Finds and checks the memory that copies and kernels reach by address, before they run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from debubble.contract.addresses import ByAddress

from ..memory.address_map import DEVICE, NOWHERE, PINNED, AddressMap, Places
from ..memory.pieces import Pieces

ALL = slice(None)
BEHIND = "runs past the end of its allocation"


@dataclass(frozen=True)
class Reach:
    """The memory that a copy or kernel reaches by address: N non-empty pieces with `sources`,
    `targets` and `sizes`, int64 [N], and the places of the sources (`from_`) and targets (`to`)."""

    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray
    from_: Places
    to: Places

    @classmethod
    def nothing(cls) -> Reach:
        none = np.empty(0, np.int64)
        nowhere = Places(none, none, [])
        return cls(none, none, none, nowhere, nowhere)

    @classmethod
    def of_copies(
        cls, addresses: AddressMap, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray
    ) -> Reach:
        """Returns what N copies reach; `sources`, `targets` and `sizes` are int64 [N].

        Raises RuntimeError for a piece of less than one byte, for a null address, for a piece that
        extends past its allocation, and if neither side is in device memory. Freed device memory
        can't be distinguished from host memory.
        """
        refuse = _Refusal("invalid value", sources, targets, sizes)
        refuse(0, sizes <= 0, "has no bytes")
        reach = cls._found(addresses, sources, targets, sizes)
        for side, places in enumerate((reach.from_, reach.to)):
            refuse(side, (sources, targets)[side] == 0, "is null")
            refuse(side, (places.code != NOWHERE) & ~places.fits, BEHIND)
        neither = (reach.from_.code != DEVICE) & (reach.to.code != DEVICE)
        refuse(1, neither, "is in no device memory, and its source isn't either")
        return reach

    @classmethod
    def of_kernel(cls, addresses: AddressMap, by_address: ByAddress, name: str) -> Reach:
        """Returns what a kernel reaches by address, without its empty pieces.

        Raises RuntimeError for a piece outside device memory and pinned host memory, for one that
        extends past its allocation, and for a size below 0.
        """
        columns = by_address.sources, by_address.targets, by_address.sizes
        numbers = np.flatnonzero(by_address.sizes)
        sources, targets, sizes = (column[numbers] for column in columns)
        what = f"an illegal memory access: {name}"
        refuse = _Refusal(what, sources, targets, sizes, numbers)
        refuse(0, sizes < 0, "has less than no bytes")
        reach = cls._found(addresses, sources, targets, sizes)
        for side, places in enumerate((reach.from_, reach.to)):
            refuse(side, (sources, targets)[side] == 0, "is null")
            refuse(side, places.code == NOWHERE, "is in pageable host memory, or unmapped")
            refuse(side, ~places.fits, BEHIND)
        return reach

    @classmethod
    def _found(
        cls, addresses: AddressMap, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray
    ) -> Reach:
        places = (addresses.look_up(starts, sizes) for starts in (sources, targets))
        return cls(sources, targets, sizes, *places)

    def read(self, which: np.ndarray | slice = ALL) -> Pieces:
        """Returns the memory that is read by the pieces that `which`, bool [N], selects; by default
        by all."""
        return Pieces(self.sources[which], self.sizes[which], held=self.from_.held())

    def written(self, which: np.ndarray | slice = ALL) -> Pieces:
        return Pieces(self.targets[which], self.sizes[which], held=self.to.held())

    @cached_property
    def host_sources(self) -> Pieces:
        return self.read(self.from_.code == PINNED)

    @cached_property
    def host_targets(self) -> Pieces:
        return self.written(self.to.code == PINNED)

    @property
    def device_bytes(self) -> int:
        """The bytes read from device memory plus the bytes written to it."""
        return sum(int(self.sizes[p.code == DEVICE].sum()) for p in (self.from_, self.to))


@dataclass(frozen=True)
class _Refusal:
    """A function that raises RuntimeError for the first piece that is bad; its message has the
    piece's number among the descriptors."""

    what: str
    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray
    numbers: np.ndarray | None = None

    def __call__(self, side: int, is_bad: np.ndarray, why: str) -> None:
        if not is_bad.any():
            return
        i = int(is_bad.argmax())
        number = i if self.numbers is None else int(self.numbers[i])
        name, starts = (("source", self.sources), ("target", self.targets))[side]
        raise RuntimeError(
            f"{self.what}, descriptor {number} ({name} {int(starts[i]):#x}, "
            f"{int(self.sizes[i])} bytes) {why}"
        )
