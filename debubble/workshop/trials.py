"""Runs the katas' tests on many implementations in one pytest process, since torch is slow to load.

A trial is one implementation: a stub, a solution, or a wrong attempt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from . import plugin
from .failure_text import FailureText
from .loader import Implementation


@dataclass
class Outcome:
    """How one test went on one implementation."""

    test: str
    passed: bool
    skipped: bool = False
    text: str = ""
    taught: bool = False
    """Whether it failed by a claim of the kata, and not by an error in the code."""

    @property
    def failed(self) -> bool:
        return not (self.passed or self.skipped)


@dataclass
class Trial:
    implementation: Implementation
    outcomes: list[Outcome] = field(default_factory=list)


class CannotRun(Exception):
    """The tests could not be collected; the text is what pytest said of it."""


def run_trials(
    implementations: list[Implementation], device: str, progress: Callable[[Trial], None]
) -> list[Trial]:
    """Each implementation through its kata's tests; `progress` is called after each test."""
    if not implementations:
        return []
    runner = _Runner(implementations, progress)
    katas = dict.fromkeys(trial.implementation.kata for trial in runner.trials)
    root = next(iter(katas)).root
    arguments = [str(kata.test_path) for kata in katas]
    options = ["--device", device, "--rootdir", str(root), "-c", os.devnull]
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist"]
    status = pytest.main([*arguments, *options, *quiet], plugins=[runner, plugin])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or runner.refusals:
        raise CannotRun("\n".join(runner.refusals) or f"pytest ended with {status!r}")
    return runner.trials


class _Runner:
    """A pytest plugin that gives the `kata` fixture every implementation in turn."""

    def __init__(
        self, implementations: list[Implementation], progress: Callable[[Trial], None]
    ) -> None:
        self.trials = [Trial(implementation) for implementation in implementations]
        self.progress = progress
        self.refusals: list[str] = []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        path = metafunc.definition.path
        trials = [t for t in self.trials if t.implementation.kata.test_path == path]
        if "kata" not in metafunc.fixturenames:
            name = metafunc.function.__name__
            self.refusals.append(f"{path.name}: {name} does not take the `kata` fixture")
            return
        implementations = [trial.implementation for trial in trials]
        labels = [implementation.label for implementation in implementations]
        metafunc.parametrize("kata", implementations, ids=labels, indirect=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.refusals.append(str(report.longrepr))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo
    ) -> Iterator[pytest.TestReport]:
        report = yield
        if call.when == "call" or not report.passed:
            implementation = item.callspec.params["kata"]
            trial = next(t for t in self.trials if t.implementation is implementation)
            outcome = Outcome(item.originalname, report.passed, report.skipped)
            if report.failed:
                outcome.text = str(report.longrepr)
                outcome.taught = isinstance(report.longrepr, FailureText) and report.longrepr.taught
            trial.outcomes.append(outcome)
            self.progress(trial)
        return report
