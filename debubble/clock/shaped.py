"""Tensors as far as a kernel's time depends on them, and the description of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeGuard

Sizes = tuple[int, ...]
HALVES = {"bfloat16", "float16"}


class Shaped(Protocol):
    """A tensor, as far as a time depends on it."""

    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def dtype(self) -> object: ...
    def stride(self) -> Sequence[int]: ...


class Configuration(NamedTuple):
    """A call's kinds, from the most exact to the most general, and its sizes. Calls of one kind
    have sizes of the same meaning, and `weights` says how much a doubling of each matters."""

    kinds: list[str]
    sizes: Sizes
    weights: tuple[float, ...]


def tensors_in(value: object) -> Iterator[Shaped]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif is_tensor(value):
        yield value


def is_tensor(value: object) -> TypeGuard[Shaped]:
    return hasattr(value, "stride")


def dtype_of(tensor: Shaped) -> str:
    name = str(tensor.dtype).rpartition(".")[2]
    return "half" if name in HALVES else name


def layout_of(tensors: list, together: bool) -> str:
    """Returns "strided" if a tensor has holes or another order, "broadcast" if the tensors have
    several shapes, and "dense" otherwise."""
    if not all(map(is_contiguous, tensors)):
        return "strided"
    shapes = {tuple(tensor.shape) for tensor in tensors if count(tensor) > 1}
    return "broadcast" if together and len(shapes) > 1 else "dense"


def is_contiguous(tensor: Shaped) -> bool:
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def count(tensor: Shaped) -> int:
    return math.prod(tensor.shape)
