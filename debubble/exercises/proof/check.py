"""Proves the katas: stubs fail as intended, solutions pass, wrong attempts are told why."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.names import TESTS
from ..kata_files.attempts import WrongAttempt, one_of_each_kind, wrong_attempts
from ..kata_files.catalogue import Catalogue, Kata
from ..kata_files.stray_files import stray_files
from ..kata_files.stubs.files import StubFiles, StubState
from ..kata_files.stubs.generate import generate
from ..kata_files.tables import ExerciseError
from ..running.under_test import Implementation, attempt, solution
from .trials import CannotRun, Trial
from .trials_side_by_side import run_side_by_side
from .verdicts import Verdict, on_attempt, on_solution, on_stub

FEWEST_ATTEMPTS = 3
REWRITE = "`debubble check --write-stubs` writes it"


@dataclass
class Plan:
    """The plan of one kata's proof: the implementations to run its tests on, and the verdicts known
    before any test runs."""

    kata: Kata
    verdicts: list[Verdict]
    implementations: list[Implementation]
    attempts: dict[Path, WrongAttempt]


def check(
    catalogue: Catalogue,
    device: str,
    progress: Callable[[int, int, str], None] = lambda done, of, doing: None,
    pristine: bool = False,
    katas: Sequence[Kata] | None = None,
    few_attempts: bool = False,
) -> list[Verdict]:
    """Proves the katas, and returns a verdict for each claim about them. `progress` gets the number
    of trials done, their total, and the current one.

    device:   "sim" or "cuda"; attempts for the other one only are left out.
    pristine: an edited stub is a failure, as in a repository's own tests. Otherwise it is left
              alone, and the stub as generated is tried in its place.
    katas:    only these of the catalogue are tried.
    few_attempts: of each kata one wrong attempt of each kind is tried (see `one_of_each_kind`), by
              the tests that its header names. Otherwise all attempts are, and by all tests.
    """
    if not catalogue.katas:
        return [Verdict("", "catalogue", f"{catalogue.file} lists no kata: nothing was proved")]
    katas = catalogue.katas if katas is None else katas
    strays = [Verdict("", "files", problem) for problem in stray_files(catalogue)]
    for path in StubFiles(catalogue).stale_given():
        place = path.relative_to(catalogue.root)
        strays.append(Verdict("", "given", f"{place} is not as generated: {REWRITE}"))
    with tempfile.TemporaryDirectory() as folder:
        plans = [
            _plan(catalogue, kata, device, pristine, Path(folder), few_attempts) for kata in katas
        ]
        verdicts = strays + [verdict for plan in plans for verdict in plan.verdicts]
        try:
            to_try = [found for plan in plans for found in plan.implementations]
            trials = _run(to_try, device, progress)
        except CannotRun as error:
            return [*verdicts, Verdict("", "tests", str(error))]
    attempts = {path: found for plan in plans for path, found in plan.attempts.items()}
    verdicts += [_judge(trial, attempts) for trial in trials]
    order = ["", *(kata.name for kata in catalogue.katas)]
    return sorted(verdicts, key=lambda verdict: order.index(verdict.kata))


def _plan(
    catalogue: Catalogue,
    kata: Kata,
    device: str,
    pristine: bool,
    folder: Path,
    few_attempts: bool,
) -> Plan:
    plan = Plan(kata, [], [], {})
    with _noting(plan, "stub file"):
        state = StubFiles(catalogue).state(kata)
        plan.verdicts.append(_on_stub_file(catalogue, kata, state, pristine))
        if pristine and StubFiles(catalogue).has_edited_tests(kata):
            path = kata.relative(kata.test_path)
            problem = f"{path} is not in katas/stubs.json as it is: {REWRITE}"
            plan.verdicts.append(Verdict(kata.name, "tests", problem))
        plan.implementations.append(_stub_to_try(kata, state, folder))
    plan.implementations.append(solution(kata))
    with _noting(plan, "wrong attempts"):
        found = wrong_attempts(kata)
        if len(found) < FEWEST_ATTEMPTS:
            raise ExerciseError(
                f"{kata.relative(kata.attempts_folder)} has {len(found)} wrong attempts: "
                f"{FEWEST_ATTEMPTS} to 6 plausible ones show that the tests can tell them apart"
            )
        here = [item for item in found if item.only_on in (None, device)]
        here = one_of_each_kind(here) if few_attempts else here
        plan.attempts = {item.path.resolve(): item for item in here}
        plan.implementations += [
            replace(
                attempt(kata, item.path),
                common=item.common_checks,
                tests=(*item.fails, *item.may_fail) if few_attempts else None,
            )
            for item in here
        ]
    if not kata.hint:
        plan.verdicts.append(Verdict(kata.name, "hint", "its hint in katas.toml is empty"))
    if not kata.test_path.is_file():
        problem = f"{kata.relative(kata.test_path)} is missing: it has no tests"
        plan.verdicts.append(Verdict(kata.name, "tests", problem))
        plan.implementations = []
    else:
        plan.verdicts.append(_on_common_checks(kata))
    return plan


def _on_common_checks(kata: Kata) -> Verdict:
    """Judges whether the kata's tests have the common checks; its note has the reason for each
    check that is left out."""
    has_inputs = "\nCOMMON = " in kata.test_path.read_text(encoding="utf-8")
    if not has_inputs and len(kata.left_out) < len(TESTS):
        problem = (
            f"{kata.relative(kata.test_path)} defines no COMMON, the inputs of the common checks: "
            "define it, or give the reason in katas.toml by `without`"
        )
        return Verdict(kata.name, "common checks", problem)
    notes = [
        f"{kata.label} is tested without `{text.replace(':', '`:', 1)}" for text in kata.without
    ]
    return Verdict(kata.name, "common checks", note="\n".join(notes))


@contextlib.contextmanager
def _noting(plan: Plan, subject: str) -> Iterator[None]:
    """Adds an ExerciseError in the block to the plan as a verdict on `subject`, so that the other
    katas are still checked."""
    try:
        yield
    except ExerciseError as error:
        plan.verdicts.append(Verdict(plan.kata.name, subject, str(error)))


def _on_stub_file(catalogue: Catalogue, kata: Kata, state: StubState, pristine: bool) -> Verdict:
    path = kata.relative(kata.stub_path)
    if state is StubState.MISSING:
        return Verdict(kata.name, "stub file", f"{path} is missing: {REWRITE}")
    if state is StubState.STALE:
        return Verdict(kata.name, "stub file", f"{path} is older than its solution: {REWRITE}")
    if state is StubState.EDITED and pristine:
        problem = f"{path} is not as generated: `debubble reset {kata.name}` restores it"
        return Verdict(kata.name, "stub file", problem)
    if state is StubState.EDITED:
        note = f"{path} has your edits: it was left alone, and the stub as generated was tried"
        return Verdict(kata.name, "stub file", note=note)
    if not StubFiles(catalogue).is_recorded(kata):
        problem = f"{path} is not in katas/stubs.json: {REWRITE}"
        return Verdict(kata.name, "stub file", problem)
    return Verdict(kata.name, "stub file")


def _stub_to_try(kata: Kata, state: StubState, folder: Path) -> Implementation:
    if state is StubState.CURRENT:
        return Implementation(kata, "learner", kata.stub_path)
    path = folder / kata.system / f"{kata.name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(generate(kata), encoding="utf-8")
    return Implementation(kata, "learner", path)


def _run(
    implementations: list[Implementation], device: str, progress: Callable[[int, int, str], None]
) -> list[Trial]:
    seen: set[int] = set()

    def after_each_trial(trial: Trial) -> None:
        seen.add(id(trial))
        doing = f"{trial.implementation.kata.name}: {trial.implementation.label}"
        progress(len(seen), len(implementations), doing)

    return run_side_by_side(implementations, device, after_each_trial)


def _judge(trial: Trial, attempts: dict[Path, WrongAttempt]) -> Verdict:
    origin = trial.implementation.origin
    if origin == "attempt":
        return on_attempt(trial, attempts[trial.implementation.path])
    return on_stub(trial) if origin == "learner" else on_solution(trial)
