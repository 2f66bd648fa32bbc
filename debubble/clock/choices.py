"""Describes calls that sort, draw, choose, or write at indices: their times depend on how many
elements they choose, and not only on their tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from .shaped import Configuration, Shaped, count, dtype_of, layout_of, tensors_in

LONGEST_SMALL_ROW = 4096
"""The most elements of a row that one block of threads sorts."""
LEFT_UNSORTED = 3072
"""The most indices of an embedding whose gradient is added without sorting them."""


def of_choice(base: str, args: Sequence[object], results: Sequence[Shaped]) -> Configuration | None:
    """Describes a call of the operator `base`, without overload. An underscore at its end says that
    it works in place. Returns None for operators that do none of this."""
    describe = CHOICES.get(base.removesuffix("_"))
    return None if describe is None else describe(base, args, results)


def _written(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes a write at indices by the number of indices, the number of elements that are
    written, how many of them share a place of the target, and the number of the target's elements.
    """
    target, given = args[0], list(tensors_in(args[WRITES[base.removesuffix("_")]]))
    shapes = [index.shape for index in given]
    number = math.prod(_broadcast(shapes)) if shapes else 1
    if isinstance(args[1], int):
        each = count(target) // max(1, target.shape[args[1]]) if len(target.shape) else 1
    else:
        each = math.prod(target.shape[len(given) :])
    dtype = dtype_of(target)
    way = _way_of_writing(base, args, given)
    kinds = [f"{base}{way} {dtype}", f"{base}{way}"]
    places = max(1, count(target) // max(1, each))
    sizes = (number, number * each, max(1, round(number / places)), count(target))
    return Configuration(kinds, sizes, (2, 1, 1, 0.25))


def _way_of_writing(base: str, args: Sequence[Any], given: list[Shaped]) -> str:
    """Returns what tells apart the kernels of writes by one operator."""
    numbers = sum(dtype_of(index) not in ("bool", "uint8") for index in given)
    way = (f" {numbers}" if numbers else " mask") if base.strip("_").startswith("index_put") else ""
    flags = [value for value in args[2:] if isinstance(value, bool)]
    if flags[:1] == [True]:
        way += " accumulate"
    if flags[1:2] == [True]:
        way += " unchecked"
    return way


def _broadcast(shapes: list[Sequence[int]]) -> list[int]:
    return [max(sizes) for sizes in zip_longest(*(reversed(s) for s in shapes), fillvalue=1)]


def _at_indices(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes a read at indices by the number of elements that are read, the number of elements
    of the source, and the length of a row; a read by a mask by the size of the mask instead."""
    source, given = args[0], list(tensors_in(args[1]))
    masks = [each for each in given if dtype_of(each) in ("bool", "uint8")]
    way = ("mask" if len(masks[0].shape) == 1 else "masks") if masks else "places"
    layout = layout_of([source], together=False)
    base = f"{base} {len(given)} {way}"
    kinds = [f"{base} {dtype_of(source)} {layout}", f"{base} {layout}", base]
    found = sum(map(count, results))
    last = source.shape[-1] if len(source.shape) else 1
    sizes = (found, count(masks[0]), count(source)) if masks else (found, count(source), last)
    return Configuration(kinds, sizes, (1, 1, 0.5))


def _largest(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes `topk` by the number of rows, their length, and the number that is chosen."""
    x, number = args[:2]
    rows, length = _rows(x, _dimension(args[2:]))
    in_order = [value for value in args[2:] if isinstance(value, bool)][1:2] != [False]
    way = "" if in_order else " unordered"
    kinds = [f"{base}{way} {dtype_of(x)}", f"{base}{way}", base]
    return Configuration(kinds, (rows, length, number), (1, 1, 0.5))


def _sorted(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    x = args[0]
    rows, length = _rows(x, _dimension(args[1:]))
    way = "short" if length <= LONGEST_SMALL_ROW else "long"
    way += " row" if rows == 1 else " rows"
    kinds = [f"sort {way} {dtype_of(x)}", f"sort {way}", "sort"]
    return Configuration(kinds, (rows, length), (1, 1))


def _drawn(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes `multinomial` by the number of rows, their length, and the number of draws."""
    x, draws = args[:2]
    rows, length = _rows(x, -1)
    again = any(value is True for value in args[2:])
    way = "one" if draws == 1 else "again" if again else "different"
    kinds = [f"{base} {way} {dtype_of(x)}", f"{base} {way}", base]
    return Configuration(kinds, (rows, length, draws), (1, 1, 0.5))


def _different(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes `unique` by the numbers of elements and of different ones, and by whether it says
    where each element is among those."""
    x, flags = args[0], [value for value in args[1:] if isinstance(value, bool)]
    inverse = base == "_unique2" and flags[1:2] == [True]
    counts = flags[2:3] == [True]
    way = f"{'inverse' if inverse else 'values'}{' counts' if counts else ''}"
    kinds = [f"{base} {way} {dtype_of(x)}", f"{base} {way}", base]
    found = count(results[0]) if results else 1
    return Configuration(kinds, (count(x), found), (1, 0.25))


def _found(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes `nonzero` by the numbers of elements and of those that are not 0."""
    x = args[0]
    dimensions = len(x.shape)
    way = "vector" if dimensions == 1 else "tensor"
    kinds = [f"{base} {way} {dtype_of(x)}", f"{base} {way}", base]
    found = sum(map(count, results)) // max(1, dimensions)
    return Configuration(kinds, (count(x), found), (1, 0.5))


def _gradient_of_rows(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    """Describes the gradient of an embedding by the number of indices, the number of elements that
    are added, and the number of elements of the table."""
    gradient, places = args[:2]
    way = "unsorted" if count(places) <= LEFT_UNSORTED else "sorted"
    kinds = [f"{base} {way} {dtype_of(gradient)}", f"{base} {way}"]
    sizes = (count(places), count(gradient), sum(map(count, results)))
    return Configuration(kinds, sizes, (2, 1, 1))


def _looked_for(base: str, args: Sequence[Any], results: Sequence[Shaped]) -> Configuration:
    x, among = args[:2]
    kinds = [f"{base} {dtype_of(x)}", base]
    return Configuration(kinds, (count(x), count(among)), (1, 1))


def _rows(x: Shaped, dimension: int) -> tuple[int, int]:
    """Returns the number of rows along a dimension, and their length."""
    length = x.shape[dimension] if len(x.shape) else 1
    return count(x) // max(1, length), length


def _dimension(args: Sequence[Any]) -> int:
    numbers = (value for value in args if isinstance(value, int) and not isinstance(value, bool))
    return next(numbers, -1)


WRITES = {
    "index_put": 1,
    "_index_put_impl": 1,
    "index_add": 2,
    "index_copy": 2,
    "index_fill": 2,
}
"""Operators that write at indices, with the position of the indices."""
Describe = Callable[[str, Sequence[Any], Sequence[Shaped]], Configuration]
CHOICES: dict[str, Describe] = {
    **{name: _written for name in WRITES},
    "index": _at_indices,
    "topk": _largest,
    "sort": _sorted,
    "argsort": _sorted,
    "multinomial": _drawn,
    "_unique2": _different,
    "unique_consecutive": _different,
    "nonzero": _found,
    "embedding_dense_backward": _gradient_of_rows,
    "isin": _looked_for,
}
