"""The key that decides whether one compiled kernel serves two mask functions: their code, and the
kinds of the values that they close over."""

from __future__ import annotations

import functools
import types
from collections.abc import Hashable

import torch


class _Same:
    """A key for a function's code, equal only for the same code object: code that is defined again
    is compiled again."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def kind_of(value: object, inside: tuple[int, ...] = ()) -> Hashable:
    """Returns a key that is equal for two mask functions that one compiled kernel serves. An
    integer that they close over counts as 0, as 1 or as any other, a float, bool or string by its
    value, a tensor by its dtype and which of its sizes are 1, a container by its items, and other
    objects by their type."""
    if id(value) in inside:
        return "itself"
    inside = (*inside, id(value))
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(size == 1 for size in value.shape)
    if isinstance(value, types.FunctionType):
        cells = tuple(_kind_of_cell(cell, inside) for cell in value.__closure__ or ())
        defaults = (value.__defaults__, value.__kwdefaults__)
        return _Same(value.__code__), cells, kind_of(defaults, inside)
    if isinstance(value, types.MethodType):
        return kind_of(value.__func__, inside), kind_of(value.__self__, inside)
    if isinstance(value, functools.partial):
        return "partial", kind_of((value.func, value.args, value.keywords), inside)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(kind_of(item, inside) for item in value)
    if isinstance(value, dict):
        return "dict", tuple((key, kind_of(item, inside)) for key, item in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return int, value if value in (0, 1) else None
    if value is None or isinstance(value, (bool, float, str)):
        return type(value), value
    kind: type = type(value)
    return kind


def _kind_of_cell(cell: types.CellType, inside: tuple[int, ...]) -> Hashable:
    try:
        return kind_of(cell.cell_contents, inside)
    except ValueError:
        return "empty"
