"""Checks that kernels in Triton's interpreter touch only memory that sim knows.

An access outside it ends a GPU's kernel with "an illegal memory access was encountered". The
interpreter would carry it out, which may end the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn

import numpy as np

from debubble.contract.source_line import SourceLine

from ..memory.address_map import AddressMap
from ..memory.blocks import ALLOCATIONS
from ..memory.illegal_access import IllegalMemoryAccess

UNKNOWN = "no memory of the device lies there, so check the kernel's indices, strides and masks"

_smallest, _largest = np.minimum.reduce, np.maximum.reduce


class Running(NamedTuple):
    """Facts about the kernel that runs now. `ranges`: the memory of its arguments, as addresses of
    the first byte and of the byte after the last. `ready`: the functions that prepared
    `triton.language` in this run."""

    name: str
    ranges: list[tuple[int, int]]
    launched_at: SourceLine | None
    ready: set[Any]


running: ContextVar[Running | None] = ContextVar("the kernel that runs now", default=None)


class Checked:
    """The loads, stores and atomics of Triton's interpreter, each of which raises
    IllegalMemoryAccess for an address outside known memory."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations
        self._addresses = AddressMap()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def load(self, addresses: np.ndarray, mask: np.ndarray, other: np.ndarray, dtype: Any) -> Any:
        self._expect_known(addresses, mask, dtype.itemsize, "reads")
        return self._operations.load(addresses, mask, other, dtype)

    def store(self, addresses: np.ndarray, values: np.ndarray, mask: np.ndarray) -> Any:
        self._expect_known(addresses, mask, values.itemsize, "writes")
        return self._operations.store(addresses, values, mask)

    def atomic_rmw(
        self, how: Any, addresses: np.ndarray, values: np.ndarray, mask: np.ndarray, order: Any
    ) -> Any:
        self._expect_known(addresses, mask, values.itemsize, "writes")
        return self._operations.atomic_rmw(how, addresses, values, mask, order)

    def atomic_cas(
        self, addresses: np.ndarray, expected: np.ndarray, values: np.ndarray, order: Any
    ) -> Any:
        self._expect_known(addresses, None, values.itemsize, "writes")
        return self._operations.atomic_cas(addresses, expected, values, order)

    def _expect_known(
        self, addresses: np.ndarray, mask: np.ndarray | None, nbytes: int, does: str
    ) -> None:
        if addresses.size == 0:
            return
        # Skips the wrappers of min() and max(), which would double the time.
        first, last = int(_smallest(addresses, None)), int(_largest(addresses, None))
        kernel = running.get()
        ranges = kernel.ranges if kernel else []
        for start, end in ranges:
            if start <= first and last + nbytes <= end:
                return
        # A mask made of scalars comes as integers, which NumPy would use as indices.
        touched = addresses if mask is None else addresses[mask.astype(bool)]
        self._look_up_each(touched, nbytes, ranges, does)

    def _look_up_each(
        self, touched: np.ndarray, nbytes: int, ranges: list[tuple[int, int]], does: str
    ) -> None:
        """Raises IllegalMemoryAccess unless `nbytes` at each address in `touched` lie in `ranges`,
        in device memory or in pinned memory."""
        known = np.zeros(touched.shape, bool)
        for start, end in ranges:
            known |= (touched >= start) & (touched <= max(end - nbytes, 0))
        others = touched[~known]
        if not len(others):
            return
        # No memory lies in the upper half of all addresses.
        starts = others.astype(np.int64)
        found = self._addresses.look_up(starts, np.full(len(starts), nbytes)).fits
        if not found.all():
            _refuse(int(others[~found][0]), nbytes, does)


def _refuse(address: int, nbytes: int, does: str) -> NoReturn:
    kernel = running.get()
    freed_at = ALLOCATIONS.freed_at(address)
    raise IllegalMemoryAccess(
        kernel.name if kernel else "a kernel",
        kernel and kernel.launched_at,
        f"{does} {nbytes} bytes at {address:#x}",
        f"what lay there was freed at {freed_at}" if freed_at else UNKNOWN,
    )


def ranges_of(values: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """Yields the address range of each tensor among a kernel's arguments, also of those in tuples
    and descriptors."""
    for value in values:
        if isinstance(value, tuple):
            yield from ranges_of(value)
        elif not hasattr(value, "untyped_storage"):
            # A wrapper for another type, or a descriptor, holds the tensor.
            base = getattr(value, "base", None)
            if base is not None:
                yield from ranges_of((base,))
        else:
            storage = value.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
