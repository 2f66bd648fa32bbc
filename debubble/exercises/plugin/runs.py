"""Runs the katas' tests: each within its time limit, in another process where its code may crash,
and with a failure's text for its learner."""

from __future__ import annotations

import unittest
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from ..running import own_process
from ..running.failure_text import FailureText, failure_text, refuse_outcome_of_code
from ..running.processes.forked import LIMIT, prepare
from ..running.time_limit import SECONDS, time_limit
from ..running.under_test import Implementation, KataCode, chosen_device, chosen_implementation
from .lookups import course_of, kata_of

ALREADY_TOLD = pytest.StashKey[set[str]]()
TOO_SLOW = pytest.StashKey[set[Path]]()
SESSION = pytest.StashKey[pytest.Session]()
OUTCOMES = (
    pytest.skip.Exception, unittest.SkipTest, pytest.xfail.Exception, pytest.exit.Exception,
)  # fmt: skip
"""Exceptions by which a test may end itself, and the code under test may not."""
SECOND_CHANCE = 2.0
"""The time limit, in seconds of CPU time, of the other tests of code that has reached its limit
once: a run waits for it in full only once."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ALREADY_TOLD] = set()
    config.stash[TOO_SLOW] = set()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[SESSION] = session


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    exercise = kata_of(item.config, item.path)
    if exercise is not None and course_of(item.config, exercise).leaves_out(exercise):
        return True
    if not own_process.is_wanted(item) or _is_ours(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    implementation = _implementation_of(item)
    reports = own_process.run(item, _seconds(item, implementation), implementation)
    for report in [*reports, *own_process.tear_down(item, nextitem)]:
        if report.failed:
            _note_failure(item)
        _remember(item.config, implementation, report)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    exercise = kata_of(item.config, item.path)
    if exercise is None:
        return (yield)
    implementation = _implementation_of(item)
    if isinstance(item, pytest.Function) and _runs_on_sim(item):
        # Without this, PyTorch's first imports would count as the code's time, and could be
        # interrupted half way.
        prepare("sim", triton=False)
        if _looks_at_operators(item):
            from debubble.private.torch import compiler

            compiler()
    with time_limit(_seconds(item, implementation), exercise.name):
        # Outside a fork, an interrupt may be the learner's Ctrl-C.
        decisions = (*OUTCOMES, KeyboardInterrupt) if LIMIT in item.stash else OUTCOMES
        try:
            return (yield)
        except decisions as outcome:
            refuse_outcome_of_code(outcome, implementation)
            raise


def _runs_on_sim(item: pytest.Function) -> bool:
    return "accelerator" in item.fixturenames and chosen_device(item.config) == "sim"


def _looks_at_operators(item: pytest.Function) -> bool:
    """True if the test uses a TorchDispatchMode: the first use imports a part of PyTorch that takes
    seconds."""
    from debubble.private.torch import TorchDispatchMode

    named = (item.module.__dict__.get(name) for name in item.function.__code__.co_names)
    return any(isinstance(it, type) and issubclass(it, TorchDispatchMode) for it in named)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    as_it_is = item.config.getoption("fulltrace", False)
    code = (item.funcargs or {}).get("kata") if isinstance(item, pytest.Function) else None
    text = None
    if isinstance(code, KataCode) and call.excinfo is not None and not as_it_is:
        text = failure_text(call.excinfo, code.implementation, item.path)
    if text is not None:
        # pytest's own text takes long to make, and fails if a signal interrupted an instruction
        # without a line.
        vars(item)["repr_failure"] = lambda *arguments, **options: text
    try:
        report = yield
    finally:
        vars(item).pop("repr_failure", None)
    if report.failed:
        _note_failure(item)
        if text is not None:
            report.longrepr = text
        if isinstance(code, KataCode) and not as_it_is and LIMIT not in item.stash:
            _remember(item.config, code.implementation, report)
    return report


def _is_ours(item: pytest.Item) -> bool:
    """True for a test on a stub as we wrote it, which is known not to crash: so it needs no other
    process."""
    kata = kata_of(item.config, item.path)
    return kata is not None and course_of(item.config, kata).is_shortened(kata)


def _note_failure(item: pytest.Item) -> None:
    kata = kata_of(item.config, item.path)
    if kata is not None:
        course = course_of(item.config, kata)
        course.failed = course.failed or kata


def _implementation_of(item: pytest.Item) -> Implementation | None:
    """Returns the implementation that the `kata` fixture gives to this test; None if the test does
    not use it."""
    exercise = kata_of(item.config, item.path)
    if exercise is None or not isinstance(item, pytest.Function):
        return None
    if "kata" not in item.fixturenames:
        return None
    chosen = item.callspec.params.get("kata") if hasattr(item, "callspec") else None
    if isinstance(chosen, Implementation):
        return chosen
    return chosen_implementation(item.config, exercise)


def _remember(
    config: pytest.Config, implementation: Implementation | None, report: pytest.TestReport
) -> None:
    """Replaces the failure text of a report by a short one if it was already printed, and records
    code that ran too long."""
    text, told = report.longrepr, config.stash[ALREADY_TOLD]
    if not isinstance(text, FailureText):
        return
    if text.ran_too_long and implementation is not None:
        config.stash[TOO_SLOW].add(implementation.path)
        if config.getoption("stop_at_time_limit", False):
            config.stash[SESSION].shouldfail = "a test has reached its time limit"
    report.longrepr = text.brief() if str(text) in told else text
    told.add(str(text))


def _seconds(item: pytest.Item, implementation: Implementation | None) -> float:
    """Returns how many seconds of CPU time a test may take; 0 means no limit, as for tests of no
    kata."""
    if LIMIT in item.stash:
        return item.stash[LIMIT]
    exercise = kata_of(item.config, item.path)
    if exercise is None:
        return 0.0
    seconds = item.config.getoption("time_limit", None)
    if seconds is None:
        seconds = exercise.time_limit
    if seconds is None:
        on_device = isinstance(item, pytest.Function) and "accelerator" in item.fixturenames
        seconds = SECONDS[chosen_device(item.config) if on_device else "sim"]
    if implementation is not None and implementation.path in item.config.stash[TOO_SLOW]:
        return min(seconds, SECOND_CHANCE)
    return seconds
