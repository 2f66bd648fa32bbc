"""What a trial proves, in a sentence when it proves nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .attempts import WrongAttempt
from .trials import Outcome, Trial


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim about a kata ("" for the whole catalogue), and why it does not hold."""

    kata: str
    subject: str
    problem: str = ""
    note: str = ""
    """What a reader should know although the claim holds."""

    @property
    def holds(self) -> bool:
        return not self.problem


def on_stub(trial: Trial) -> Verdict:
    """Exactly the tests of `stub_fails` fail, and each by a claim that teaches."""
    kata = trial.implementation.kata
    if not kata.stub_fails:
        return Verdict(kata.name, "stub", "stub_fails is empty: there is nothing to solve")
    problem = _differs(trial, kata.stub_fails, "on the stub, which katas.toml")
    untaught = [o for o in trial.outcomes if o.test in trial.failing and o.text and not o.taught]
    if not problem and untaught:
        problem = (
            f"{untaught[0].test} fails on the stub by an error and not by a claim that teaches: "
            f"{_first_line(untaught[0])}"
        )
    return Verdict(kata.name, "stub", problem)


def on_solution(trial: Trial) -> Verdict:
    kata, label = trial.implementation.kata, "solution"
    if not any(outcome.passed for outcome in trial.outcomes):
        problem = "no test passes on the solution"
    else:
        problem = _differs(trial, (), "on the solution, which")
    return Verdict(kata.name, label, problem)


def on_attempt(trial: Trial, attempt: WrongAttempt) -> Verdict:
    """Exactly the tests of its docstring fail, and they say its words."""
    place = attempt.kata.relative(attempt.path)
    problem = _differs(trial, attempt.fails, f"on {place}, whose docstring", attempt.may_fail)
    missing = [words for words in attempt.says if words not in " ".join(trial.said.split())]
    if not problem and missing and trial.failing:
        failed = next(outcome for outcome in trial.outcomes if outcome.text)
        problem = f"{place} is not told {missing[0]!r}, but: {_first_line(failed)}"
    return Verdict(attempt.kata.name, attempt.label, problem)


def _differs(trial: Trial, expected: Iterable[str], where: str, allowed: Iterable[str] = ()) -> str:
    """Where the failing tests are not the expected ones; a skipped test may be either."""
    outcomes = {outcome.test: outcome for outcome in trial.outcomes}
    for name in (*expected, *allowed):
        if name not in outcomes:
            return f"there is no test {name}, {where.partition(', ')[2]} names"
        skipped = all(o.skipped for o in trial.outcomes if o.test == name)
        if name in expected and name not in trial.failing and not skipped:
            return f"{name} passes {where} says it fails"
    for name in trial.failing:
        if name not in (*expected, *allowed):
            outcome = next(o for o in trial.outcomes if o.test == name and o.text)
            says = "should pass" if where.endswith("which") else "does not name"
            return f"{name} fails {where} {says}: {_first_line(outcome)}"
    return "" if outcomes else "no test ran"


def _first_line(outcome: Outcome) -> str:
    """The first two lines: what was expected, and what came."""
    return " ".join(outcome.text.splitlines()[:2]) or "without a word"
