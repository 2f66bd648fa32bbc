"""Finds the bytes that an operator with an index touches: some rows of a cache, not all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import numpy as np
import torch

from .blocks import Block, Span
from .pieces import Pieces

MOST_PIECES = 1 << 16
"""The most pieces of memory for which races are checked. An operator that chooses more is not
compared."""
MOST_KEPT = 4096
"""The largest number of elements of an index that is copied, for comparison with later accesses."""

Index = Sequence[torch.Tensor | None]
Offsets = Callable[[torch.Tensor, Index], tuple[np.ndarray, Pieces]]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The elements of `data`, a CPU tensor over `block`, that an operator reads or writes because
    `index` chooses them. It doesn't keep the block alive."""

    block: ref[Block]
    data: torch.Tensor
    index: Index
    offsets: Offsets
    wrote: bool

    @classmethod
    def by(cls, name: str, block: Block, args: Sequence[Any], wrote: bool) -> Chosen | None:
        """Returns the part of its first argument that the operator `name` (without overload) reads
        or writes, or None for an operator without a known way to choose. `args` are on the CPU."""
        data = args[0]
        if data.dim() == 0:
            return None
        if name in ALONG_A_DIMENSION and isinstance(args[1], int):
            index: Index = [None] * (args[1] % data.dim()) + [args[2]]
            return cls(ref(block), data, index, ALONG_A_DIMENSION[name], wrote)
        if name in BY_ONE_INDEX:
            return cls(ref(block), data, [args[1]], BY_ONE_INDEX[name], wrote)
        if name in BY_INDICES:
            return cls(ref(block), data, list(args[1]), _rows, wrote)
        return None

    def kept(self) -> Chosen | None:
        """Returns the same choice with a copy of the index, or None if the index has more than
        MOST_KEPT elements."""
        if sum(part.numel() for part in self.index if part is not None) > MOST_KEPT:
            return None
        index = [None if part is None else part.clone() for part in self.index]
        return replace(self, index=index)

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the starts and ends of the chosen byte ranges, int64 [N] each, in order of
        address. Returns empty arrays if there are more than MOST_PIECES pieces."""
        none = np.empty(0, np.int64)
        if self.data.numel() == 0 or all(part is None for part in self.index):
            return none, none
        offsets, rest = self.offsets(self.data, self.index)
        offsets = np.unique(offsets)
        if not 0 < len(offsets) * len(rest) <= MOST_PIECES:
            return none, none
        starts = np.add.outer(offsets, rest.starts).ravel()
        ends = np.add.outer(offsets, rest.ends).ravel()
        order = np.argsort(starts)
        starts, ends = starts[order], ends[order]
        apart = starts[1:] != ends[:-1]
        return starts[np.append(True, apart)], ends[np.append(apart, True)]

    def span(self) -> Span:
        """Returns the smallest span of addresses that contains all chosen ranges."""
        starts, ends = self.ranges()
        return (int(starts.min()), int(ends.max())) if len(starts) else (0, 0)


def is_whole(block: Block, whole: bool, chosen: Chosen | None) -> bool:
    """Returns True if an operator touches all elements of its tensor over `block`, and not only the
    `chosen` ones."""
    return whole or (chosen is not None and block is not chosen.block())


def _rows(data: torch.Tensor, index: Index) -> tuple[np.ndarray, Pieces]:
    """Returns the byte offset of each row that an index of some dimensions, or a mask over several,
    chooses, and the pieces of the row at offset 0."""
    by_dimension: dict[int, torch.Tensor] = {}
    dimension = 0
    for part in index:
        if part is None:
            dimension += 1
            continue
        is_mask = part.dtype in (torch.bool, torch.uint8)
        for numbers in part.nonzero().unbind(1) if is_mask else (part,):
            by_dimension[dimension] = numbers
            dimension += 1
    rest = data
    for dimension in sorted(by_dimension, reverse=True):
        rest = rest.select(dimension, 0)
    numbers = torch.broadcast_tensors(*by_dimension.values())
    coordinates = [part.reshape(-1).numpy() for part in numbers]
    return _bytes(data, dict(zip(by_dimension, coordinates, strict=True))), Pieces.of(rest)


def _elements(data: torch.Tensor, index: Index) -> tuple[np.ndarray, Pieces]:
    """Returns the byte offset of each element that `gather` or `scatter_` chooses, whose index
    replaces the coordinates of one dimension, and the piece of the element at offset 0."""
    (numbers,) = (part for part in index if part is not None)
    coordinates = dict(enumerate(np.indices(numbers.shape, sparse=True)))
    coordinates[len(index) - 1] = numbers.numpy()
    return _bytes(data, coordinates), _first(data)


def _positions(data: torch.Tensor, index: Index) -> tuple[np.ndarray, Pieces]:
    """Returns the byte offset of each element that an index of positions in row-major order
    chooses, and the piece of the element at offset 0."""
    (numbers,) = (part for part in index if part is not None)
    flat = numbers.reshape(-1).numpy() % data.numel()
    return _bytes(data, dict(enumerate(np.unravel_index(flat, data.shape)))), _first(data)


def _masked(data: torch.Tensor, index: Index) -> tuple[np.ndarray, Pieces]:
    (mask,) = (part for part in index if part is not None)
    found = np.nonzero(mask.expand(data.shape).numpy())
    return _bytes(data, dict(enumerate(found))), _first(data)


def _bytes(data: torch.Tensor, coordinates: dict[int, np.ndarray]) -> np.ndarray:
    """Returns the byte offset from the first element of each point of `coordinates`, by
    dimension."""
    total = np.zeros(1, np.int64)
    for dimension, numbers in coordinates.items():
        step = data.stride(dimension) * data.element_size()
        numbers = numbers.astype(np.int64, copy=False)
        total = total + np.where(numbers < 0, numbers + data.size(dimension), numbers) * step
    return total.ravel()


def _first(data: torch.Tensor) -> Pieces:
    """Returns the first element of `data` as one piece."""
    return Pieces(np.array([data.data_ptr()]), np.array([data.element_size()]))


ALONG_A_DIMENSION: dict[str, Offsets] = {
    **dict.fromkeys(("index_select", "index_copy_", "index_add_", "index_fill_"), _rows),
    **dict.fromkeys(("gather", "scatter_", "scatter_add_", "scatter_reduce_"), _elements),
}
"""Operators whose arguments are a tensor, a dimension and an index, each with the function that
finds the chosen bytes."""
BY_ONE_INDEX: dict[str, Offsets] = {
    "embedding": _rows,
    **dict.fromkeys(("take", "put_"), _positions),
    **dict.fromkeys(("masked_fill_", "masked_select", "masked_scatter_"), _masked),
}
"""Operators whose arguments are a tensor and an index, or a mask, each with the function that finds
the chosen bytes."""
BY_INDICES = {"index", "index_put_", "_index_put_impl_"}
"""Operators whose arguments are a tensor and a list of indices."""
