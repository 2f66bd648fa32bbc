"""Judges what a trial proves, and says in a sentence why it proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..common.names import TESTS
from ..kata_files.attempts import WrongAttempt
from .trials import TestOutcome, Trial


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim about a kata ("" for the whole catalogue), and the problem if it does not hold."""

    kata: str
    subject: str
    problem: str = ""
    note: str = ""
    """A remark for the reader although the claim holds."""

    @property
    def holds(self) -> bool:
        return not self.problem


def on_stub(trial: Trial) -> Verdict:
    """Judges the trial of a kata's stub: exactly the tests of `stub_fails` must fail, each by a
    claim that teaches."""
    kata = trial.implementation.kata
    if not kata.stub_fails:
        return Verdict(kata.name, "stub", "stub_fails is empty: there is nothing to solve")
    problem = _unforeseen(trial, "the stub", "katas.toml", kata.stub_fails)
    untaught = [outcome for outcome in trial.outcomes if outcome.failed and not outcome.taught]
    if not problem and untaught:
        problem = (
            f"{untaught[0].test} fails on the stub by an error and not by a claim that teaches: "
            f"{_first_lines(untaught[0])}"
        )
    return Verdict(kata.name, "stub", problem)


def on_solution(trial: Trial) -> Verdict:
    """Judges the trial of a kata's solution: no test may fail, and at least one must pass."""
    failed = [outcome for outcome in trial.outcomes if outcome.failed]
    if failed:
        problem = f"{failed[0].test} fails on the solution: {_first_lines(failed[0])}"
    else:
        passed = any(outcome.passed for outcome in trial.outcomes)
        problem = "" if passed else "no test ran on the solution"
    return Verdict(trial.implementation.kata.name, "solution", problem)


def on_attempt(trial: Trial, attempt: WrongAttempt) -> Verdict:
    """Judges the trial of a wrong attempt: exactly the tests that its header names must fail, and
    their texts must contain the header's words."""
    place = attempt.kata.relative(attempt.path)
    problem = _unforeseen(trial, place, "its header", attempt.fails, attempt.may_fail)
    failed = [outcome for outcome in trial.outcomes if outcome.failed]
    said = " ".join(" ".join(outcome.text for outcome in failed).split())
    missing = [words for words in attempt.says if words not in said]
    if not problem and missing and failed:
        problem = f"{place} is not told {missing[0]!r}, but: {_first_lines(failed[0])}"
    return Verdict(attempt.kata.name, attempt.label, problem)


def _unforeseen(
    trial: Trial, place: str, source: str, fails: Sequence[str], may_fail: Sequence[str] = ()
) -> str:
    """Returns a sentence if the failing tests are not those that `source` names, else "". A skipped
    test counts neither as failed nor as passed; the common checks may fail as well."""
    tests = {outcome.test for outcome in trial.outcomes}
    failed = {outcome.test: outcome for outcome in trial.outcomes if outcome.failed}
    skipped = tests - {outcome.test for outcome in trial.outcomes if not outcome.skipped}
    for name in (*fails, *may_fail):
        if name not in tests:
            return f"{source} names the test {name}, but there is none"
    for name in fails:
        if name not in failed and name not in skipped:
            return f"{name} passes on {place}, but {source} says that it fails"
    for name, outcome in failed.items():
        if name not in (*fails, *may_fail, *TESTS.values()):
            return f"{name} fails on {place}, but {source} does not say so: {_first_lines(outcome)}"
    return ""


def _first_lines(outcome: TestOutcome) -> str:
    """Returns the first two lines of the failure: what was expected, and what came instead."""
    lines = outcome.text.splitlines()
    of_a_traceback = [line[1:].strip() for line in lines if line.startswith("E  ")]
    return " ".join((of_a_traceback or lines)[:2]) or "without a word"
