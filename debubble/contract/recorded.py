"""Events that a recording holds on request, beside calls, waits and the device's work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast, get_args

Also = Literal["compile", "alloc", "host"]
"""Compilations, the driver's allocations of device and pinned memory, and the program's own
Python."""
FIRST = "its first call"
"""The word of a compilation event if no key of its kernel is known yet."""


def checked_also(also: Iterable[str]) -> frozenset[Also]:
    """Returns `also` as a set. Raises ValueError for a word that is none of the three."""
    words = [also] if isinstance(also, str) else list(also)
    for word in words:
        if word not in get_args(Also):
            raise ValueError(f"also has {word!r}, and takes {', '.join(get_args(Also))}")
    return cast("frozenset[Also]", frozenset(words))
