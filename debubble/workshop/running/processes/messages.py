"""What pytest and the process that runs single tests for it say to each other."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Setting(NamedTuple):
    """What pytest in the other process is started with: the same items come of it."""

    device: str
    arguments: list[str]
    options: dict[str, object]
    plugins: Sequence[object]


class Request(NamedTuple):
    nodeid: str
    seconds: float
    """Of CPU time for the test's call; 0 means no limit."""


@dataclass(frozen=True)
class Done:
    """All reports of a test have been sent."""

    imported: Sequence[str] = ()
    """Modules that the process has imported for it."""


@dataclass(frozen=True)
class Ended:
    """The process ended before a test was done."""

    exit_code: int
    """As a negative number: by this signal."""
    trace: str
    """What Python's faulthandler wrote of it: the innermost frame first."""
    out: str
    err: str
    """What it had printed, where pytest captures that."""

    @property
    def computed_too_long(self) -> bool:
        """By the signal of the timer that counts what the process computes."""
        return self.exit_code == -signal.SIGPROF

    @property
    def stood_still(self) -> bool:
        return self.trace.startswith("Timeout")

    @property
    def own_error(self) -> str:
        """The traceback of what went wrong around the test, and not in it."""
        return self.trace if self.trace.startswith("Traceback") else ""
