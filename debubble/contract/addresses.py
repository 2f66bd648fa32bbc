"""Memory by address: the range around an address, and the pieces that a kernel reaches by
addresses."""

from __future__ import annotations

from ctypes import c_int64
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

NEEDS_A_STREAM = (
    "a batch of copies takes no work on the default stream: enter a stream first, "
    "`with accelerator.stream(): ...`"
)
"""The error message of `copy_batch` on the default stream, on both accelerators."""
MOST_REGISTERED = 512 << 30
"""The number of bytes, 512 GiB, at which a driver refuses to register memory in one call."""


class MemoryRange(NamedTuple):
    """The device allocation or the registered memory around an address: `start` is the address of
    its first byte, `nbytes` its size."""

    place: Literal["device", "pinned"]
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class ByAddress:
    """The memory that a kernel reads and writes by addresses, instead of through tensor arguments.

    `sources`, `targets` (addresses) and `sizes` (bytes): contiguous numpy int64 [N] each; piece i
    is read at `sources[i]` and written at `targets[i]`. Raises ValueError for arrays of another
    kind.
    """

    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray

    def __post_init__(self) -> None:
        check_pieces(self.sources, self.targets, self.sizes)


def check_registration(address: int, nbytes: int) -> None:
    """Raises RuntimeError for memory that no driver registers: an address or size of 0 or less, or
    512 GiB or more."""
    if address <= 0 or nbytes <= 0:
        raise RuntimeError(f"{nbytes} bytes at {address:#x} are no memory that can be registered")
    if nbytes >= MOST_REGISTERED:
        raise RuntimeError(
            f"{nbytes} bytes are too many to register in one call: register less than "
            f"{MOST_REGISTERED} bytes (512 GiB) at a time"
        )


class Extent(NamedTuple):
    """The sizes of a list of pieces, in bytes."""

    total: int
    smallest: int
    largest: int


def extent_of(sizes: np.ndarray) -> Extent:
    """Returns the extent of the pieces with these sizes, int64 [N]: all 0 for an empty list.

    Most lists have pieces of one size. They are recognised by a comparison of bytes, which costs a
    fraction of numpy's three reductions.
    """
    count, as_bytes = len(sizes), sizes.tobytes()
    if as_bytes == as_bytes[: INT64.itemsize] * count:
        size = sizes.item(0) if count else 0
        return Extent(count * size, size, size)
    return Extent(int(sizes.sum()), int(sizes.min()), int(sizes.max()))


class _Memory(c_int64 * (1 << 59)):  # type: ignore[misc]  # a base made by a call
    """All memory from an address on, as numbers. A view of it has a part."""

    owner: object


def numbers_at(address: int, count: int, owner: object = None) -> np.ndarray:
    """Returns the int64 [count] in host memory at `address`, without a copy: a view that keeps
    `owner` alive."""
    memory = _Memory.from_address(address)
    memory.owner = owner
    return np.frombuffer(memory, np.int64, count)


INT64 = np.dtype(np.int64)
"""The dtype that addresses and sizes must have, as an object, which numpy compares at once; a name
would be looked up for every array."""


def check_pieces(sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray) -> None:
    """Raises ValueError unless the three are contiguous numpy int64 arrays [N] of one length."""
    for name, array in (("sources", sources), ("targets", targets), ("sizes", sizes)):
        if not isinstance(array, np.ndarray) or array.dtype != INT64 or array.ndim != 1:
            what = f"{array.dtype} {list(array.shape)}" if hasattr(array, "dtype") else type(array)
            raise ValueError(f"{name} must be a numpy array of int64 [N], not {what}")
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} must be contiguous: its stride is {array.strides[0]} bytes")
        if len(array) != len(sources):
            raise ValueError(
                f"sources, targets and sizes must be of one length, not {len(sources)}, "
                f"{len(targets)} and {len(sizes)}"
            )
