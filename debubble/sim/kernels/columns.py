"""Finds the addresses that a kernel uses among its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from debubble.contract.addresses import ByAddress

from ..memory.address_map import AddressMap
from .reach import Reach


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of a kernel's tensor arguments that hold its source addresses, target addresses and
    sizes, int64 [N] each, as they are now."""

    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray

    @classmethod
    def found(cls, tensors: Iterable[torch.Tensor], by_address: ByAddress | None) -> Columns | None:
        """Returns the rows of the tensors that begin with the sources, targets and sizes of
        `by_address`, or None if one of the three isn't found."""
        if by_address is None:
            return None
        rows = [row for tensor in tensors for row in _rows(tensor)]
        wanted = (by_address.sources, by_address.targets, by_address.sizes)
        columns = [row for row in (_row_with(rows, column) for column in wanted) if row is not None]
        return cls(*columns) if len(columns) == len(wanted) else None

    def are_reachable(self, addresses: AddressMap) -> bool:
        """Returns True if the addresses and sizes that the arguments hold now lie in memory that a
        kernel may use. With bad ones it would end with an illegal memory access on a GPU, and would
        end this process on sim."""
        pieces = ByAddress(self.sources.copy(), self.targets.copy(), self.sizes.copy())
        try:
            Reach.of_kernel(addresses, pieces, "a kernel")
        except RuntimeError:
            return False
        return True


def _rows(tensor: torch.Tensor) -> Iterator[np.ndarray]:
    if tensor.dtype == torch.int64 and tensor.dim() in (1, 2):
        values = tensor.numpy()
        yield from [values] if tensor.dim() == 1 else values


def _row_with(rows: list[np.ndarray], column: np.ndarray) -> np.ndarray | None:
    for row in rows:
        if len(row) >= len(column) and np.array_equal(row[: len(column)], column):
            return row[: len(column)]
    return None
