"""Trials in several processes at once: no kata has to do with another one."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import torch

from .loader import Implementation
from .trials import CannotRun, Trial, run_trials

MOST_PROCESSES = 4
"""Each loads torch, and has some 400 MB."""


def run_side_by_side(
    implementations: list[Implementation], device: str, progress: Callable[[Trial], None]
) -> list[Trial]:
    """As `run_trials`, which it is on a GPU, where processes would wait for one another, and for
    one kata; else `progress` is called for each trial when all of its kata's are done."""
    katas: dict[str, list[Implementation]] = {}
    for found in implementations:
        katas.setdefault(found.kata.system, []).append(found)
    processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(katas))
    if device != "sim" or processes < 2:
        return run_trials(implementations, device, progress)
    trials: dict[str, list[Trial]] = {}
    refusals = []
    with ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        longest_first = sorted(katas, key=lambda name: _size(katas[name]), reverse=True)
        running = {pool.submit(_trials_of, katas[name], device): name for name in longest_first}
        for done in as_completed(running):
            try:
                trials[running[done]] = done.result()
            except CannotRun as error:
                refusals.append(str(error))
            except BrokenProcessPool:
                problem = f"the process that tried {running[done]}, or one beside it, has crashed"
                raise CannotRun(f"{problem}: mark the tests of its kata own_process") from None
            for trial in trials.get(running[done], []):
                progress(trial)
    if refusals:
        raise CannotRun("\n".join(refusals))
    return [trial for name in katas for trial in trials[name]]


def _trials_of(implementations: list[Implementation], device: str) -> list[Trial]:
    return run_trials(implementations, device, lambda trial: None)


def _size(implementations: list[Implementation]) -> int:
    """A guess at how long they take."""
    return len(implementations) * implementations[0].kata.test_path.stat().st_size
