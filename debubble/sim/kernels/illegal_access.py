"""Kernels in Triton's interpreter touch only memory that sim knows.

Outside of it a GPU's kernel ends with "an illegal memory access was encountered". The interpreter
would read or write there, and may end the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import cache, wraps
from typing import Any, NamedTuple, NoReturn

import numpy as np

from debubble.contract.source_line import SourceLine, source_line

from ..memory.address_map import AddressMap
from ..memory.blocks import ALLOCATIONS
from ..memory.illegal_access import IllegalMemoryAccess

UNKNOWN = "no memory of the device lies there, so check the kernel's indices, strides and masks"

_smallest, _largest = np.minimum.reduce, np.maximum.reduce


class _Running(NamedTuple):
    """A kernel that runs now: `ranges` are its arguments' memory."""

    name: str
    ranges: list[tuple[int, int]]
    launched_at: SourceLine | None


class _OfThread(threading.local):
    kernel: _Running | None = None


_now = _OfThread()


@cache
def check_addresses() -> None:
    """From now on each kernel that Triton interprets raises IllegalMemoryAccess where it reads or
    writes outside of its arguments' memory, device memory and pinned memory. A version of Triton
    without functions of these names stays as it is."""
    from triton.runtime import interpreter

    if not {"_interpreter", "GridExecutor"} <= vars(interpreter).keys():
        return
    interpreter._interpreter = _Checked(interpreter._interpreter)
    run = interpreter.GridExecutor.__call__

    @wraps(run)
    def run_checked(executor: Any, *args: Any, **meta: Any) -> Any:
        ranges = sorted(set(_ranges_of((*args, *meta.values()))))
        outer = _now.kernel
        _now.kernel = _Running(executor.fn.__name__, ranges, source_line())
        try:
            return run(executor, *args, **meta)
        except interpreter.InterpreterError as error:
            cause: BaseException | None = error
            while isinstance(cause, interpreter.InterpreterError):
                cause = cause.__cause__
            if isinstance(cause, IllegalMemoryAccess):
                raise cause from None
            raise
        finally:
            _now.kernel = outer

    interpreter.GridExecutor.__call__ = run_checked


class _Checked:
    """The interpreter's operations on memory, each checked before it happens."""

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
        # Without the wrappers of min() and max(), which take as long again.
        first, last = int(_smallest(addresses, None)), int(_largest(addresses, None))
        ranges = _now.kernel.ranges if _now.kernel else []
        for start, end in ranges:
            if start <= first and last + nbytes <= end:
                return
        # A mask made of scalars comes as integers, which would be taken for places.
        touched = addresses if mask is None else addresses[mask.astype(bool)]
        self._look_up_each(touched, nbytes, ranges, does)

    def _look_up_each(
        self, touched: np.ndarray, nbytes: int, ranges: list[tuple[int, int]], does: str
    ) -> None:
        """For those that don't lie in one argument's memory, all of them."""
        known = np.zeros(touched.shape, bool)
        for start, end in ranges:
            known |= (touched >= start) & (touched <= max(end - nbytes, 0))
        others = touched[~known]
        if not len(others):
            return
        # What lies in the upper half of all addresses is nobody's.
        starts = others.astype(np.int64)
        found = self._addresses.look_up(starts, np.full(len(starts), nbytes)).fits
        if not found.all():
            _refuse(int(others[~found][0]), nbytes, does)


def _refuse(address: int, nbytes: int, does: str) -> NoReturn:
    running = _now.kernel
    freed_at = ALLOCATIONS.freed_at(address)
    raise IllegalMemoryAccess(
        running.name if running else "a kernel",
        running and running.launched_at,
        f"{does} {nbytes} bytes at {address:#x}",
        f"what lay there was freed at {freed_at}" if freed_at else UNKNOWN,
    )


def _ranges_of(values: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """Memory of the tensors among a kernel's arguments, in tuples and descriptors too."""
    for value in values:
        if isinstance(value, tuple):
            yield from _ranges_of(value)
        elif not hasattr(value, "untyped_storage"):
            # A wrapper for another type, or a descriptor, holds the tensor.
            base = getattr(value, "base", None)
            if base is not None:
                yield from _ranges_of((base,))
        else:
            storage = value.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
