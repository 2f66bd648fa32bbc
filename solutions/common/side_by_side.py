"""Arrays that share one buffer: where each of them lies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def places_of(sizes: Mapping[Name, int], alignment: int) -> tuple[dict[Name, slice], int]:
    """Where in the buffer each array lies, by its name, and how large the buffer has to be. Arrays
    keep their order, and each starts at a multiple of `alignment`; all in the unit of `sizes`."""
    places, end = {}, 0
    for name, size in sizes.items():
        places[name] = slice(end, end + size)
        end += -(-size // alignment) * alignment
    return places, end
