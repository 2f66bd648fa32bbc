"""The ways in which a recording on sim gets the times of the program's own Python."""

from __future__ import annotations

import os
from typing import Literal, cast, get_args

HostTimes = Literal["modelled", "measured"]
VARIABLE = "DEBUBBLE_HOST"


def checked(host: str | None) -> HostTimes | None:
    """Returns `host`. Raises ValueError if it is neither None nor one of the two ways."""
    if host is not None and host not in get_args(HostTimes):
        raise ValueError(f"host is {host!r}, and is either modelled or measured")
    return cast("HostTimes | None", host)


def host_times() -> HostTimes:
    """Returns the way that DEBUBBLE_HOST names, by default "modelled". Raises ValueError for
    another value."""
    return checked(os.environ.get(VARIABLE) or "modelled") or "modelled"
