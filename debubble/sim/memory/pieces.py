"""Pieces of memory by their addresses: reads, writes and compares their bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from .blocks import Span

FIRST = np.zeros(1, np.int64)
CHUNK = 1 << 20
"""The number of bytes that are compared or hashed at once."""


class Pieces:
    """N ranges of bytes, which together form one flat array.

    `starts`, `sizes`: int64 [N]. `offsets`, int64 [N], says where each range begins in the flat
    array; by default they follow one another. `held` keeps their memory from being freed.
    """

    def __init__(
        self,
        starts: np.ndarray,
        sizes: np.ndarray,
        offsets: np.ndarray | None = None,
        held: Sequence[Any] = (),
    ) -> None:
        self.starts, self.sizes, self.held = starts, sizes, held
        if offsets is None:
            offsets = np.cumsum(sizes) - sizes if len(sizes) > 1 else FIRST[: len(sizes)]
        self.offsets = offsets

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Pieces:
        """Returns the memory of a CPU tensor's elements: one piece if they are dense, else a piece
        for each dense row."""
        if tensor.numel() == 0:
            return cls.none()
        if tensor.is_contiguous():
            starts, sizes = np.array([tensor.data_ptr()]), np.array([tensor.nbytes])
            return cls(starts, sizes, held=[tensor])
        size, rows = tensor.element_size(), FIRST
        for length, step in sorted(_dimensions(tensor), key=lambda d: d[1]):
            if step == size:
                size *= length
            else:
                rows = np.add.outer(np.arange(length) * step, rows).ravel()
        return cls(rows + tensor.data_ptr(), np.full(len(rows), size), held=[tensor])

    @classmethod
    def none(cls) -> Pieces:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def together(cls, parts: Iterable[Pieces]) -> Pieces:
        return sum(parts, cls.none())

    def __len__(self) -> int:
        return len(self.starts)

    def __add__(self, other: Pieces) -> Pieces:
        """Returns the pieces of both, those of `other` last."""
        starts = np.concatenate([self.starts, other.starts])
        sizes = np.concatenate([self.sizes, other.sizes])
        return Pieces(starts, sizes, held=(*self.held, *other.held))

    @property
    def ends(self) -> np.ndarray:
        return self.starts + self.sizes

    @property
    def nbytes(self) -> int:
        return int(self.sizes.sum()) if len(self.sizes) != 1 else int(self.sizes[0])

    def gather(self, flat: np.ndarray | None = None) -> np.ndarray:
        """Copies the bytes of all pieces into one flat array, uint8 [nbytes], and returns it."""
        flat = np.empty(self.nbytes, np.uint8) if flat is None else flat
        base = _address_of(flat)
        for start, size, offset in self._rows():
            ctypes.memmove(base + offset, start, size)
        return flat

    def hold(self, flat: np.ndarray) -> bool:
        """Returns True if the pieces' bytes are those of `flat`, uint8 [nbytes]. Compares large
        pieces a CHUNK at a time, so that it doesn't have to copy all of them."""
        if self.nbytes <= CHUNK:
            return self.gather().data == flat.data
        base = _address_of(flat)
        return all(
            ctypes.string_at(start + at, min(CHUNK, size - at))
            == ctypes.string_at(base + offset + at, min(CHUNK, size - at))
            for start, size, offset in self._rows()
            for at in range(0, size, CHUNK)
        )

    def hashes(self) -> list[int]:
        """Returns a 64-bit hash for each CHUNK of bytes of each piece."""
        return [
            hash(ctypes.string_at(start + at, min(CHUNK, size - at)))
            for start, size, _ in self._rows()
            for at in range(0, size, CHUNK)
        ]

    def scatter(self, flat: np.ndarray) -> None:
        """Overwrites the pieces' bytes with those of `flat`, uint8 [nbytes], the inverse of
        `gather`."""
        base = _address_of(flat)
        for start, size, offset in self._rows():
            ctypes.memmove(start, base + offset, size)

    def fill(self, byte: int) -> None:
        for start, size, _ in self._rows():
            ctypes.memset(start, byte, size)

    def _rows(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.starts.tolist(), self.sizes.tolist(), self.offsets.tolist(), strict=True)


def _address_of(flat: np.ndarray) -> int:
    return flat.__array_interface__["data"][0]


def span_of(tensor: torch.Tensor) -> Span:
    """Returns the addresses of the tensor's first byte and of the byte after its last."""
    start = tensor.data_ptr()
    if tensor.is_contiguous():
        return start, start + tensor.nbytes
    if tensor.numel() == 0:
        return start, start
    last = sum((length - 1) * step for length, step in _dimensions(tensor))
    return start, start + last + tensor.element_size()


def share_a_byte(
    ranges: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
) -> bool:
    """Returns True if a range of one list shares a byte with a range of the other. Each list is its
    starts and ends, int64 [N]."""
    (starts, ends), order = ranges, np.argsort(others[0])
    if not len(starts) or not len(order):
        return False
    before = np.searchsorted(others[0][order], ends, "left") - 1
    reach = np.maximum.accumulate(others[1][order])
    return bool(((before >= 0) & (reach[before] > starts)).any())


def _dimensions(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Returns the length and the stride in bytes of each dimension with a length above 1 and a
    stride other than 0."""
    itemsize = tensor.element_size()
    both = zip(tensor.shape, tensor.stride(), strict=True)
    return [(length, step * itemsize) for length, step in both if length > 1 and step]
