"""Runs trials in several processes at once, one for each system: katas of two systems are
independent."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from ..running.under_test import Implementation
from .trials import CannotRun, Trial, run_trials
from .trials_apart import TrialsProcesses

MOST_PROCESSES = 4
"""The most processes at once. Each loads torch, and takes some 400 MB."""


def run_side_by_side(
    implementations: list[Implementation], device: str, progress: Callable[[Trial], None]
) -> list[Trial]:
    """Runs the trials of each system in its own process, and returns all of them; `progress` is
    called for each trial when all trials of its system are done. Calls `run_trials` on a GPU, where
    processes would wait for each other, and for a single system or core. Raises CannotRun as
    `run_trials` does."""
    systems: dict[str, list[Implementation]] = {}
    for found in implementations:
        systems.setdefault(found.kata.system, []).append(found)
    processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(systems))
    if device != "sim" or processes < 2:
        return run_trials(implementations, device, progress)
    trials: dict[str, list[Trial]] = {}
    refusals = []
    running = TrialsProcesses()
    with ThreadPoolExecutor(processes) as waiting:
        # The systems that are taught last take longest, so they begin first.
        to_come = {
            waiting.submit(running.run_trials, found, device): name
            for name, found in reversed(systems.items())
        }
        try:
            for done in as_completed(to_come):
                try:
                    trials[to_come[done]] = done.result()
                except CannotRun as error:
                    refusals.append(str(error))
                for trial in trials.get(to_come[done], []):
                    progress(trial)
        except BaseException:  # such as Ctrl-C
            waiting.shutdown(wait=False, cancel_futures=True)
            running.kill()
            raise
    if refusals:
        raise CannotRun("\n".join(refusals))
    return [trial for name in systems for trial in trials[name]]
