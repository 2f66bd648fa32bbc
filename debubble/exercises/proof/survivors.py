"""Runs the katas' tests on mutants of their solutions, and reports which of them pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ..kata_files.catalogue import Catalogue, Kata
from ..kata_files.changed_solution import solution_module
from ..kata_files.tables import Format, read_tables, texts
from ..running.under_test import Implementation
from .mutants import Mutant, mutants_of
from .trials import CannotRun
from .trials_apart import TrialsProcesses

SECONDS = 8.0
"""Seconds of CPU time that a test may take on a mutant, which often never ends by itself."""
REASONS = "tests/wrong_attempts/surviving_mutants.toml"
"""The file of mutants that pass, each with its kata, line, edit and the reason: `equivalent` ones
do the same as the solution, and those under `may_pass` do something else. It also names definitions
that a kata leaves open, in which nothing is mutated."""
MOST_SURVIVE = 0.02
"""The largest allowed share of passing mutants among those that do something else."""
_MUTANT = Format(texts("kata", "line", "edit", "reason"))
FORMATS = {
    "left_open": Format({**texts("kata", "reason"), "names": (list,)}),
    "equivalent": _MUTANT,
    "may_pass": _MUTANT,
}

Key = tuple[str, str, str]
"""A mutant in `surviving_mutants.toml`: the kata's name, the source of the line, and the edit in
words."""


class Reason(NamedTuple):
    text: str
    is_equivalent: bool


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that passes all tests of its kata."""

    mutant: Mutant
    place: str
    """The file and line: `solutions/gdn/chunk_tables.py:39`."""
    reason: str = ""
    """The reason why it may pass, if `surviving_mutants.toml` has one."""
    is_equivalent: bool = False
    """True if it does the same as the solution in all that the kata allows."""

    def __str__(self) -> str:
        return f"{self.place}: `{self.mutant.code}`: {self.mutant.edit}"


@dataclass
class Mutation:
    """The result of trying all mutants of one kata: their number, and those that passed. `problem`
    says if `surviving_mutants.toml` names a mutant that did not, or if the solution fails as it
    is: then the mutants' failures prove nothing."""

    kata: Kata
    tried: int = 0
    survivors: list[Survivor] = field(default_factory=list)
    problem: str = ""

    @property
    def equivalent(self) -> list[Survivor]:
        return [survivor for survivor in self.survivors if survivor.is_equivalent]

    @property
    def explained(self) -> list[Survivor]:
        """The survivors that do something else than the solution, and may pass for a reason."""
        return [it for it in self.survivors if it.reason and not it.is_equivalent]

    @property
    def unexplained(self) -> list[Survivor]:
        return [survivor for survivor in self.survivors if not survivor.reason]


def mutate(
    catalogue: Catalogue,
    katas: Sequence[Kata],
    device: str,
    progress: Callable[[int, int, str], None] = lambda done, of, doing: None,
) -> list[Mutation]:
    """Runs each kata's tests on all mutants of its solution, each until one test fails, and returns
    a result for each kata. `progress` gets the number of mutants tried, their total, and the
    current kata."""
    reasons, left_open = _reasons(catalogue), _left_open(catalogue)
    mutants = {kata.name: mutants_of(kata, left_open.get(kata.name, ())) for kata in katas}
    total, done, results = sum(map(len, mutants.values())), 0, []
    for kata in katas:
        progress(done, total, kata.name)
        results.append(_tried(kata, mutants[kata.name], device, reasons))
        done += len(mutants[kata.name])
    progress(done, total, "done")
    return results


def _tried(kata: Kata, mutants: list[Mutant], device: str, reasons: dict[Key, Reason]) -> Mutation:
    result = Mutation(kata, len(mutants))
    with tempfile.TemporaryDirectory() as name:
        patient = replace(kata, time_limit=SECONDS)
        folder, module = Path(name).resolve(), solution_module(kata)
        unedited = _written(patient, folder / f"{kata.name}.py", "\n".join(module.lines) + "\n")
        implementations = {
            _written(patient, folder / f"{kata.name}_{number}.py", mutant.text): mutant
            for number, mutant in enumerate(mutants)
        }
        passed = {found.path for found in _passed([unedited, *implementations], device)}
    file = kata.relative(module.path)
    for implementation, mutant in implementations.items():
        if implementation.path in passed:
            key = kata.name, mutant.code, mutant.edit
            result.survivors.append(
                Survivor(mutant, f"{file}:{mutant.line}", *reasons.get(key, Reason("", False)))
            )
    there = {(it.mutant.code, it.mutant.edit) for it in result.survivors}
    named = [(code, edit) for name, code, edit in reasons if name == kata.name]
    stale = [f"`{code}`: {edit}" for code, edit in named if (code, edit) not in there]
    if stale:
        result.problem = f"{REASONS} names a mutant that there is not, or that fails: {stale[0]}"
    if unedited.path not in passed:
        result.problem = f"{file} fails a test without any edit: see `debubble check {kata.name}`"
    return result


def _written(kata: Kata, path: Path, text: str) -> Implementation:
    path.write_text(text, encoding="utf-8")
    return Implementation(kata, "mutant", path)


def _passed(implementations: list[Implementation], device: str) -> Iterator[Implementation]:
    """Yields the mutants on which all tests pass. A mutant that ends its process has failed."""
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


def share_that_may_pass(catalogue: Catalogue) -> float:
    """Returns the share of explained survivors among all mutants that do something else, from the
    record alone: no test runs."""
    left_open, reasons = _left_open(catalogue), _reasons(catalogue).values()
    mutants = [mutants_of(kata, left_open.get(kata.name, ())) for kata in catalogue.katas]
    equivalent = sum(reason.is_equivalent for reason in reasons)
    return (len(reasons) - equivalent) / (sum(map(len, mutants)) - equivalent)


def _reasons(catalogue: Catalogue) -> dict[Key, Reason]:
    tables = read_tables(catalogue.root, REASONS, FORMATS)
    return {
        (it["kata"], it["line"], it["edit"]): Reason(it["reason"], table == "equivalent")
        for table in ("equivalent", "may_pass")
        for it in tables[table]
    }


def _left_open(catalogue: Catalogue) -> dict[str, list[str]]:
    """Returns the names of the definitions in which nothing is mutated, by the kata's name."""
    entries = read_tables(catalogue.root, REASONS, FORMATS)["left_open"]
    return {it["kata"]: it["names"] for it in entries}
