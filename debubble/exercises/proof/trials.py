"""Runs the katas' tests on many implementations in one pytest process, since torch is slow to load.

A trial is one implementation: a stub, a solution, a wrong attempt, or a mutant of the solution. A
mutant's remaining tests are skipped once one has failed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from .. import plugin
from ..running.failure_text import FailureText
from ..running.under_test import Implementation, Implementations


@dataclass
class TestOutcome:
    """The result of one test on one implementation."""

    test: str
    passed: bool
    skipped: bool = False
    text: str = ""
    taught: bool = False
    """True if a claim of the kata failed, False for an error in the code."""

    @property
    def failed(self) -> bool:
        return not (self.passed or self.skipped)


@dataclass
class Trial:
    implementation: Implementation
    outcomes: list[TestOutcome] = field(default_factory=list)


class CannotRun(Exception):
    """The error for trials that could not run: the tests could not be collected, or their process
    crashed, hung or was killed. Its text says why."""


def run_trials(
    implementations: list[Implementation],
    device: str,
    progress: Callable[[Trial], None],
    *plugins: object,
) -> list[Trial]:
    """Runs each implementation through its kata's tests; `progress` is called after each test.
    Returns one trial for each implementation. Raises KeyboardInterrupt after Ctrl-C, although
    pytest turns it into an exit status, and CannotRun if the tests can't be collected.

    plugins: further plugins for pytest.
    """
    if not implementations:
        return []
    runner = _Runner(implementations, progress)
    katas = Implementations(implementations)
    tests = dict.fromkeys(str(found.kata.test_path) for found in implementations)
    root = implementations[0].kata.root
    options = ["--device", device, "--rootdir", str(root), "-c", os.devnull]
    # nbval and hypothesis are slow to load, and no kata has to do with them.
    others = ("terminal", "cacheprovider", "xdist", "nbval", "hypothesispytest")
    quiet = [f"-pno:{plugin}" for plugin in others]
    status = pytest.main([*tests, *options, *quiet], plugins=[runner, katas, plugin, *plugins])
    if runner.interrupted:
        raise KeyboardInterrupt
    refusals = runner.refusals + katas.refusals
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or refusals:
        raise CannotRun("\n".join(refusals) or f"pytest ended with {status!r}")
    return runner.trials


class _Runner:
    """A pytest plugin that records the outcome of each test on each implementation in its
    `trials`."""

    def __init__(
        self, implementations: list[Implementation], progress: Callable[[Trial], None]
    ) -> None:
        self.trials = [Trial(implementation) for implementation in implementations]
        self.progress = progress
        self.refusals: list[str] = []
        self.tests: dict[str, tuple[Trial, str]] = {}
        self.interrupted = False

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.interrupted = excinfo.type is KeyboardInterrupt

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.refusals.append(str(report.longrepr))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if not isinstance(item, pytest.Function):
                continue
            for trial in self.trials:
                if trial.implementation is item.callspec.params["kata"]:
                    self.tests[item.nodeid] = trial, item.originalname

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if item.nodeid not in self.tests:
            return None
        trial, _ = self.tests[item.nodeid]
        is_mutant = trial.implementation.origin == "mutant"
        return True if is_mutant and any(it.failed for it in trial.outcomes) else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        trial, test = self.tests[report.nodeid]
        outcome = TestOutcome(test, report.passed, report.skipped)
        if report.failed:
            outcome.text = str(report.longrepr)
            outcome.taught = isinstance(report.longrepr, FailureText) and report.longrepr.taught
        trial.outcomes.append(outcome)
        self.progress(trial)
