"""A watchdog for a process that runs tests unattended: it ends one that hangs, and names its
test."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from pathlib import Path

import pytest

LONGEST_TEST = 300.0
"""Seconds after which the process of a hanging test is ended: several times what one test may take,
with its set-up, or all that comes before the first test."""
NO_TEST = "no test"


class Watchdog:
    """A pytest plugin that notes in a file which test runs, and where it was when it crashed or
    hung. It watches from its construction until the process ends."""

    def __init__(self, notes: Path, seconds: float) -> None:
        self._notes = notes.open("w")
        self._seconds = seconds
        self._begin(NO_TEST)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._begin(item.nodeid)
        try:
            return (yield)
        finally:
            self._begin(NO_TEST)

    def _begin(self, doing: str) -> None:
        self._notes.seek(0)
        self._notes.truncate()
        print(doing, file=self._notes, flush=True)
        faulthandler.enable(self._notes, all_threads=False)
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._notes)


def how_it_ended(notes: Path) -> str:
    """Returns a sentence that says whether a process with a Watchdog hung or crashed, and in which
    test, from its notes."""
    doing, _, trace = notes.read_text().partition("\n") if notes.is_file() else (NO_TEST, "", "")
    if trace.startswith("Timeout"):
        return f"{doing} hung, and its process was ended:\n{trace.strip()}"
    crash = f"the process that ran {doing} has crashed"
    if doing != NO_TEST:
        crash += ": mark the tests of its kata own_process"
    return f"{crash}\n{trace}".strip()
