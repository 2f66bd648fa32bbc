"""Runs trials in processes of their own: code under test may crash or hang its process."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from ..running.processes.interpreter import Interpreter
from ..running.under_test import Implementation
from .trials import CannotRun, Trial, run_trials
from .watchdog import LONGEST_TEST, Watchdog, how_it_ended


class TrialsProcesses:
    """Processes that run trials: `run_trials` starts one and waits for it, and `kill` ends all that
    run."""

    def __init__(self) -> None:
        self._running: set[Interpreter] = set()

    def run_trials(self, implementations: list[Implementation], device: str) -> list[Trial]:
        """Runs each implementation through its kata's tests in a process of their own, and returns
        one trial for each. Raises CannotRun when the tests can't run, or the process crashes,
        hangs, or is killed."""
        with tempfile.TemporaryDirectory() as folder:
            notes = Path(folder, "notes.txt")
            task = partial(_answer, implementations, device, notes, LONGEST_TEST)
            with closing(Interpreter(task)) as interpreter:
                self._running.add(interpreter)
                try:
                    answer: list[Trial] | CannotRun = interpreter.connection.recv()
                except (EOFError, ConnectionError):
                    answer = CannotRun(how_it_ended(notes))
                finally:
                    self._running.remove(interpreter)
        if isinstance(answer, CannotRun):
            raise answer
        return answer

    def kill(self) -> None:
        for interpreter in list(self._running):
            interpreter.kill()


def _answer(
    implementations: list[Implementation],
    device: str,
    notes: Path,
    longest_test: float,
    connection: Connection,
) -> None:
    """Runs the trials in the other process, and sends them, or the CannotRun that they raised. Ends
    the process if the process that started it has ended and no longer waits for them."""
    watchdog = Watchdog(notes, longest_test)
    ends_if_alone = lambda trial: os._exit(1) if connection.poll() else None
    try:
        connection.send(run_trials(implementations, device, ends_if_alone, watchdog))
    except CannotRun as error:
        connection.send(error)
