"""cuMemcpyBatchAsync: many copies in one call of the driver, which reads three arrays of
numbers."""

from __future__ import annotations

from ctypes import Structure, byref, c_int, c_size_t, c_uint

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
        self._driver, self._submit = driver, driver.function(FUNCTION)
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
        self, sources: int, targets: int, sizes: int, count: int, stream: int, any_order: bool
    ) -> None:
        """Copies `sizes[i]` bytes from address `sources[i]` to `targets[i]`, for all i. The three
        are addresses of lists, int64 [count] each with count > 0, which may be changed as soon as
        the call returns; `stream` is CUDA's handle of a stream."""
        self._driver.enter_context()
        result = self._submit(
            targets,
            sources,
            sizes,
            count,
            self._in_any_order if any_order else self._in_stream_order,
            self._from_the_first_on,
            1,
            self._failed,
            stream,
        )
        if result:
            self._driver.check(FUNCTION, result)
