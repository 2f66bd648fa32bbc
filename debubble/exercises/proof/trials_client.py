"""Starts the processes that run trials, waits for them and reads their answers."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from ..running.processes.environment import process_environment
from ..running.under_test import Implementation
from .trials import CannotRun, Trial
from .trials_messages import ANSWER, NOTES, REQUEST, Answer, TrialRequest
from .watchdog import LONGEST_TEST, how_it_ended

SERVER = "debubble.exercises.proof.trials_server"


class TrialsProcesses:
    """Processes that run trials: `run_trials` starts one and waits for it, and `kill` ends all that
    run."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()

    def run_trials(self, implementations: list[Implementation], device: str) -> list[Trial]:
        """Runs each implementation through its kata's tests in a process of their own, and returns
        one trial for each. Raises CannotRun when the tests can't run, or the process crashes,
        hangs, or is killed."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            request = TrialRequest(implementations, device, LONGEST_TEST)
            (folder / REQUEST).write_bytes(pickle.dumps(request))
            self._run([sys.executable, "-m", SERVER, name])
            if not (folder / ANSWER).is_file():
                raise CannotRun(how_it_ended(folder / NOTES))
            answer: Answer = pickle.loads((folder / ANSWER).read_bytes())
        if answer.refusal:
            raise CannotRun(answer.refusal)
        return answer.trials

    def kill(self) -> None:
        for process in list(self._running):
            process.kill()

    def _run(self, command: list[str]) -> None:
        """Starts a process with `command`, and waits until it ends, in whatever way."""
        environment = process_environment()
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL) as process:
            self._running.add(process)
            process.wait()
            self._running.remove(process)
