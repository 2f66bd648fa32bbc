"""Trials in several processes at once: no kata has to do with one of another system."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from . import trials_process
from .loader import Implementation
from .one_thread import ONE_THREAD
from .trials import CannotRun, Trial, run_trials
from .trials_messages import ANSWER, NOTES, REQUEST, Answer, Request
from .watchdog import LONGEST_TEST, how_it_ended

MOST_PROCESSES = 4
"""Each loads torch, and has some 400 MB."""


def run_side_by_side(
    implementations: list[Implementation], device: str, progress: Callable[[Trial], None]
) -> list[Trial]:
    """As `run_trials`, which it is on a GPU, where processes would wait for one another, and for
    one system; else `progress` is called for each trial when all of its system's are done."""
    systems: dict[str, list[Implementation]] = {}
    for found in implementations:
        systems.setdefault(found.kata.system, []).append(found)
    processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(systems))
    if device != "sim" or processes < 2:
        return run_trials(implementations, device, progress)
    trials: dict[str, list[Trial]] = {}
    refusals = []
    # What is taught last takes longest, and so begins first.
    with _Processes(processes) as pool:
        running = {
            pool.submit(_trials_of, found, device, pool.run): name
            for name, found in reversed(systems.items())
        }
        for done in as_completed(running):
            try:
                trials[running[done]] = done.result()
            except CannotRun as error:
                refusals.append(str(error))
            for trial in trials.get(running[done], []):
                progress(trial)
    if refusals:
        raise CannotRun("\n".join(refusals))
    return [trial for name in systems for trial in trials[name]]


class _Processes(ThreadPoolExecutor):
    """Threads that wait for a process each. An error, or Ctrl-C, ends those that run."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._running: set[subprocess.Popen] = set()

    def run(self, command: list[str], environment: dict[str, str]) -> None:
        """Waits for the process's end, however that is."""
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL) as process:
            self._running.add(process)
            process.wait()
            self._running.remove(process)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self.shutdown(wait=False, cancel_futures=True)
            for process in list(self._running):
                process.kill()
        self.shutdown()


def _trials_of(
    implementations: list[Implementation],
    device: str,
    run: Callable[[list[str], dict[str, str]], None],
) -> list[Trial]:
    """In a process that `run` starts. CannotRun also when it crashes, or hangs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / REQUEST).write_bytes(pickle.dumps(Request(implementations, device, LONGEST_TEST)))
        command = [sys.executable, "-m", trials_process.__name__, name]
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        run(command, {**os.environ, **ONE_THREAD, "PYTHONPATH": path})
        if not (folder / ANSWER).is_file():
            raise CannotRun(how_it_ended(folder / NOTES))
        answer: Answer = pickle.loads((folder / ANSWER).read_bytes())
    if answer.refusal:
        raise CannotRun(answer.refusal)
    return answer.trials
