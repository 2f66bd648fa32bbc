"""The messages between pytest and the process that runs single tests for it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class TestRequest(NamedTuple):
    nodeid: str
    seconds: float
    """Seconds of CPU time for the test's call; 0 means no limit."""


@dataclass(frozen=True)
class Done:
    """The message that all reports of a test have been sent."""

    imported: Sequence[str] = ()
    """Modules that the process has imported for the test."""


@dataclass(frozen=True)
class Ended:
    """The message that the process of a test ended before the test was done, and how."""

    exit_code: int
    """The exit status; a negative number is the signal that ended the process."""
    trace: str
    """The traceback of Python's faulthandler, innermost frame first."""
    out: str
    err: str
    """The texts that the process had printed to stdout (`out`) and stderr (`err`), if pytest
    captures them."""

    @property
    def computed_too_long(self) -> bool:
        """True if the signal of the CPU timer ended the process."""
        return self.exit_code == -signal.SIGPROF

    @property
    def stood_still(self) -> bool:
        return self.trace.startswith("Timeout")

    @property
    def own_error(self) -> str:
        """The traceback of an error outside the test, or ""."""
        return self.trace if self.trace.startswith("Traceback") else ""
