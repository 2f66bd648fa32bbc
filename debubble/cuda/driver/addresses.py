"""Looks up the memory of an address, and page-locks existing memory."""

from __future__ import annotations

import ctypes
from typing import Literal

from debubble.contract.addresses import MemoryRange, check_registration

from .driver import Driver, DriverError

MEMORY_TYPE, RANGE_START, RANGE_SIZE = 2, 11, 12
"""The driver's numbers for three attributes of an address: the type of its memory, and the start
and size of its range."""

PLACES: dict[int, Literal["device", "pinned"]] = {1: "pinned", 2: "device", 4: "device"}
"""The place of memory by the driver's memory type. Type 4 is memory that the driver moves between
host and device."""

PORTABLE, MAPPED = 1, 2
"""Flags for registering host memory: it is usable in every context, and by kernels."""


class Addresses:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        """The end of each range registered here by its start, in `_end_of`, and the start by its
        end."""

    def memory_at(self, address: int) -> MemoryRange | None:
        """Returns the range of device or pinned memory around an address, or None. Memory that the
        driver maps in parts, such as PyTorch's expandable segments, is one range with all the
        addresses reserved for it."""
        try:
            place = PLACES[self._ask(MEMORY_TYPE, ctypes.c_uint(), address)]
            start = self._ask(RANGE_START, ctypes.c_uint64(), address)
            nbytes = self._ask(RANGE_SIZE, ctypes.c_size_t(), address)
        except (DriverError, KeyError):
            return None
        return self._with_neighbours(place, start, start + nbytes)

    def register(self, address: int, nbytes: int) -> None:
        check_registration(address, nbytes)
        self._driver.call("cuMemHostRegister_v2", address, nbytes, PORTABLE | MAPPED)
        self._end_of[address], self._start_of[address + nbytes] = address + nbytes, address

    def unregister(self, address: int) -> None:
        self._driver.call("cuMemHostUnregister", address)
        end = self._end_of.pop(address, None)
        if end is not None:
            self._start_of.pop(end, None)

    def _with_neighbours(
        self, place: Literal["device", "pinned"], start: int, end: int
    ) -> MemoryRange:
        """Returns the range from `start` to `end`, joined with registered ranges that touch it: one
        buffer may have been registered in parts."""
        while start in self._start_of:
            start = self._start_of[start]
        while end in self._end_of:
            end = self._end_of[end]
        return MemoryRange(place, start, end - start)

    def _ask(self, attribute: int, answer: ctypes._SimpleCData, address: int) -> int:
        self._driver.call("cuPointerGetAttribute", ctypes.byref(answer), attribute, address)
        return answer.value
