"""Runs the katas' tests on mutants of their solutions, and says which of them pass."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..kata_files.catalogue import Catalogue, Kata, WorkshopError
from ..kata_files.changed_solution import solution_module
from ..running.under_test import Implementation
from .mutants import Mutant, mutants_of
from .trials import CannotRun
from .trials_client import TrialsProcesses

SECONDS = 8.0
"""That a test may take on a mutant, which often runs for ever."""
EQUIVALENT = Path("tests", "wrong_attempts", "equivalent_mutants.toml")
"""Mutants that are no mistakes: of each its kata, line, edit, and the reason."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that passes all tests of its kata."""

    mutant: Mutant
    place: str
    """`solutions/gdn/chunk_tables.py:39`."""
    reason: str = ""
    """Why it may pass, where `equivalent_mutants.toml` says so."""

    def __str__(self) -> str:
        return f"{self.place}: `{self.mutant.code}`: {self.mutant.edit}"


@dataclass
class Mutation:
    """What came of all mutants of one kata."""

    kata: Kata
    tried: int = 0
    survivors: list[Survivor] = field(default_factory=list)
    problem: str = ""

    @property
    def explained(self) -> list[Survivor]:
        return [survivor for survivor in self.survivors if survivor.reason]

    @property
    def unexplained(self) -> list[Survivor]:
        return [survivor for survivor in self.survivors if not survivor.reason]


def mutate(
    catalogue: Catalogue,
    katas: Sequence[Kata],
    device: str,
    progress: Callable[[int, int, str], None] = lambda done, of, doing: None,
) -> list[Mutation]:
    """All mutants of each kata, each tried until one of its kata's tests fails. `progress` gets the
    mutants tried, their number, and the present kata."""
    reasons = _reasons(catalogue)
    mutants = {kata.name: mutants_of(kata) for kata in katas}
    total, done, results = sum(map(len, mutants.values())), 0, []
    for kata in katas:
        progress(done, total, kata.name)
        results.append(_tried(kata, mutants[kata.name], device, reasons))
        done += len(mutants[kata.name])
    progress(done, total, "done")
    return results


def _tried(
    kata: Kata, mutants: list[Mutant], device: str, reasons: dict[tuple[str, str, str], str]
) -> Mutation:
    result = Mutation(kata, len(mutants))
    with tempfile.TemporaryDirectory() as name:
        patient = replace(kata, time_limit=SECONDS)
        implementations = {}
        for number, mutant in enumerate(mutants):
            path = Path(name).resolve() / f"{kata.name}_{number}.py"
            path.write_text(mutant.text, encoding="utf-8")
            implementations[Implementation(patient, "mutant", path)] = mutant
        passed = {found.path for found in _passed([*implementations], device)}
    file = kata.relative(solution_module(kata).path)
    for implementation, mutant in implementations.items():
        if implementation.path in passed:
            reason = reasons.get((kata.name, mutant.code, mutant.edit), "")
            result.survivors.append(Survivor(mutant, f"{file}:{mutant.line}", reason))
    there = {(it.mutant.code, it.mutant.edit) for it in result.survivors}
    named = [(code, edit) for name, code, edit in reasons if name == kata.name]
    stale = [f"`{code}`: {edit}" for code, edit in named if (code, edit) not in there]
    if stale:
        result.problem = f"{EQUIVALENT} names a mutant that there is not, or that fails: {stale[0]}"
    return result


def _passed(implementations: list[Implementation], device: str) -> Iterator[Implementation]:
    """Those whose tests all pass. What ends the process has failed."""
    if not implementations:
        return
    try:
        trials = TrialsProcesses().run_trials(implementations, device)
    except CannotRun:
        half = len(implementations) // 2
        if half:
            yield from _passed(implementations[:half], device)
            yield from _passed(implementations[half:], device)
        return
    for trial in trials:
        if trial.outcomes and not any(outcome.failed for outcome in trial.outcomes):
            yield trial.implementation


def _reasons(catalogue: Catalogue) -> dict[tuple[str, str, str], str]:
    """By kata, line and edit."""
    file = catalogue.root / EQUIVALENT
    if not file.is_file():
        return {}
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("equivalent", [])
    for entry in entries:
        if {*entry} != {"kata", "line", "edit", "reason"}:
            raise WorkshopError(f"{EQUIVALENT} needs kata, line, edit and reason: not {entry}")
    return {(it["kata"], it["line"], it["edit"]): it["reason"] for it in entries}
