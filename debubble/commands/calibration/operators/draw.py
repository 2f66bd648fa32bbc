"""Draws the sizes of calls, spread evenly over their logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

import torch

Run = Callable[[], object]
Item = TypeVar("Item")
LARGEST = 1 << 23
"""The most elements of an operand of a kernel that memory limits."""


class Case(NamedTuple):
    """A call to be measured: `make` allocates its tensors and returns the call."""

    make: Callable[[Draw], Run]
    repeats: int
    """The number of sizes to draw."""


class Draw:
    """Draws sizes and makes tensors on `device`."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self.device, self.random = device, Random(seed)

    def one_of(self, values: Sequence[Item]) -> Item:
        return self.random.choice(values)

    def size(self, low: int, high: int, multiple: int = 1) -> int:
        """Returns a size from `low` to `high`, each doubling as likely as the next. Half of the
        sizes are powers of two, as they are in models."""
        exponent = self.random.uniform(math.log2(low), math.log2(high))
        size = 2 ** round(exponent) if self.random.random() < 0.5 else round(2**exponent)
        return min(max(low, size // multiple * multiple, multiple), high)

    def shape(self, largest: int, dimensions: int | None = None) -> list[int]:
        """Returns a shape of 1 to 3 dimensions with about `largest` elements at most."""
        count = dimensions or self.random.choice((1, 2, 2, 3))
        left = self.size(16, largest)
        shape = []
        for _ in range(count - 1):
            size = self.size(1, max(2, left))
            shape.append(size)
            left = max(1, left // size)
        return [*shape, left]

    def dtype(self) -> torch.dtype:
        return self.one_of((torch.float32, torch.float32, torch.bfloat16))

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def indices(self, below: int, *shape: int) -> torch.Tensor:
        return torch.randint(max(1, below), shape, device=self.device)

    def in_a_layout(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor dense, transposed, or as a part of a wider one."""
        way = self.random.random()
        if tensor.dim() < 2 or way < 0.7:
            return tensor
        if way < 0.85:
            return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        return torch.cat([tensor, tensor], -1)[..., : tensor.shape[-1]]

    def beside(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a second operand: of equal shape, a row, a column or a number."""
        shape = list(tensor.shape)
        way = self.random.random()
        if way < 0.2:
            shape = shape[-1:]
        elif way < 0.3 and len(shape) > 1:
            shape[-1] = 1
        elif way < 0.35:
            shape = []
        return torch.randn(shape, device=self.device).to(tensor.dtype).abs_().add_(0.5)
