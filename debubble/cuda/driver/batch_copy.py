"""cuMemcpyBatchAsync: many copies in one call of the driver, which reads three arrays of
numbers."""

from __future__ import annotations

from ctypes import Structure, addressof, byref, c_char, c_int, c_size_t, c_uint

import numpy as np

from .driver import Driver

FUNCTION = "cuMemcpyBatchAsync"
"""The name of the driver's function, in the form of CUDA 12.8. Later drivers also have a newer
form, which doesn't say which copy failed."""
OLDEST = 12080
IN_STREAM_ORDER, IN_ANY_ORDER = 1, 3
"""The driver's numbers for when a copy may read its source: once the stream gets there, or at any
time from now on."""


class Location(Structure):
    """The driver's CUmemLocation, a hint where managed memory lies; left empty here."""

    _fields_ = (("kind", c_int), ("number", c_int))


class Attributes(Structure):
    """The driver's CUmemcpyAttributes, which apply to all copies of a batch."""

    _fields_ = (
        ("source_order", c_int),
        ("source_hint", Location),
        ("target_hint", Location),
        ("flags", c_uint),
    )


class BatchCopy:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._in_stream_order = byref(Attributes(source_order=IN_STREAM_ORDER))
        self._in_any_order = byref(Attributes(source_order=IN_ANY_ORDER))
        self._from_the_first_on = byref(c_size_t(0))
        self._failed = byref(c_size_t())

    @classmethod
    def available(cls, driver: Driver) -> BatchCopy | None:
        """Returns a `BatchCopy`, or None if the driver lacks the call, which came with CUDA
        12.8."""
        return cls(driver) if driver.version >= OLDEST and driver.has(FUNCTION) else None

    def __call__(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        sizes: np.ndarray,
        stream: int,
        any_order: bool,
    ) -> None:
        """Copies `sizes[i]` bytes from address `sources[i]` to `targets[i]`, for all i. The arrays
        are contiguous int64 [N], N > 0, and may be changed as soon as the call returns; `stream` is
        CUDA's handle of a stream."""
        self._driver.call(
            FUNCTION,
            _address(targets),
            _address(sources),
            _address(sizes),
            len(sizes),
            self._in_any_order if any_order else self._in_stream_order,
            self._from_the_first_on,
            1,
            self._failed,
            stream,
        )


def _address(array: np.ndarray) -> int:
    """Returns the address of the array's first number, for a writeable array faster than numpy
    does."""
    return addressof(c_char.from_buffer(array.data)) if array.flags.writeable else array.ctypes.data
