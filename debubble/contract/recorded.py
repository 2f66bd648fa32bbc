"""The options of a recording: events on request, and the source of the times of Python."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal, cast, get_args

Also = Literal["compile", "alloc", "host"]
"""Compilations, the driver's allocations of device and pinned memory, and the program's own
Python."""
HostTimes = Literal["modelled", "measured"]
"""The ways in which a recording on sim gets the times of the program's own Python."""
VARIABLE = "DEBUBBLE_HOST"
FIRST = "its first call"
"""The word of a compilation event if no key of its kernel is known yet."""


def checked_also(also: Iterable[str]) -> frozenset[Also]:
    """Returns `also` as a set. Raises ValueError for a word that is none of the three."""
    words = [also] if isinstance(also, str) else list(also)
    for word in words:
        if word not in get_args(Also):
            raise ValueError(f"also has {word!r}, and takes {', '.join(get_args(Also))}")
    return cast("frozenset[Also]", frozenset(words))


def checked_host(host: str | None) -> HostTimes | None:
    """Returns `host`. Raises ValueError if it is neither None nor one of the two ways."""
    if host is not None and host not in get_args(HostTimes):
        raise ValueError(f"host is {host!r}, and is either modelled or measured")
    return cast("HostTimes | None", host)


def host_times() -> HostTimes:
    """Returns the way that DEBUBBLE_HOST names, by default "modelled". Raises ValueError for
    another value."""
    return checked_host(os.environ.get(VARIABLE) or "modelled") or "modelled"
