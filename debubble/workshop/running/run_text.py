"""What a run of the katas says: first on which accelerator and whose code, at the end how each kata
stands and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..kata_files.catalogue import Catalogue
from .under_test import can_interrupt, chosen_accelerator

if TYPE_CHECKING:
    from ..kata_files.catalogue import Kata

DEFAULT_REPORT = "fE"
"""pytest's own choice of what to list again at the end; the scoreboard says it better."""


@dataclass
class Score:
    """How the tests of a kata went."""

    tests: int = 0
    """How many of them the run was asked for."""
    reports: list[pytest.TestReport] = field(default_factory=list)
    """What came of them: of a run that was stopped, not of all."""

    @property
    def passed(self) -> int:
        names = {report.nodeid for report in self.reports if report.passed}
        return len(names - {report.nodeid for report in self.reports if not report.passed})

    @property
    def skipped(self) -> int:
        """Those that skipped themselves, since this machine lacks what they need."""
        return sum(report.skipped and not hasattr(report, "wasxfail") for report in self.reports)

    @property
    def failed(self) -> bool:
        return any(report.failed for report in self.reports)

    @property
    def solved(self) -> bool:
        return self.passed == self.tests - self.skipped

    def __str__(self) -> str:
        here = self.tests - self.skipped
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} of {here} {'test passes' if here == 1 else 'tests pass'}{skipped}"


def header(config: pytest.Config) -> list[str]:
    return [_device_line(config), _code_line(config)]


def leave_one_kata_to_read(reporter: pytest.TerminalReporter, katas: dict[Kata, Score]) -> None:
    """Hides the failures of all katas but the first unsolved one: a wall of text teaches nothing.

    With `-v` everything is shown.
    """
    if reporter.config.option.verbose > 0:
        return
    unsolved = [kata for kata, score in katas.items() if not score.solved]
    for kata in unsolved[1:]:
        for report in katas[kata].reports:
            # pytest leaves out what a debugger has already shown.
            report._pdbshown = True  # type: ignore[attr-defined]  # pytest's debugger sets it so
    if katas and reporter.config.option.reportchars == DEFAULT_REPORT:
        reporter.reportchars = "w"


def write_scoreboard(
    reporter: pytest.TerminalReporter, katas: dict[Kata, Score], mine: bool
) -> None:
    """`mine`: whether the learner's code was tested, so that there is something to do next."""
    reporter.section("katas", bold=True)
    width = max(len(f"{kata.system}/{kata.name}") for kata in katas)
    for kata, score in katas.items():
        mark = "✔" if score.solved else "·"
        name = f"{kata.system}/{kata.name}"
        reporter.write_line(f" {mark} {name:<{width}}  {score}", green=score.solved)
    unsolved = [kata for kata, score in katas.items() if not score.solved]
    if not mine:
        return
    if not unsolved:
        reporter.write_line(_praise(list(katas)), green=True)
        return
    kata = unsolved[0]
    quiet = reporter.config.option.verbose <= 0
    others = " (-v shows those of the other katas too)" if quiet and unsolved[1:] else ""
    failures = f"Its failures are above{others}."
    if not katas[kata].failed:
        failures = "Nothing failed, but not all of its tests ran to their end."
    reporter.write_line("")
    reporter.write_line(f"Next: {kata.title}. {failures}")
    reporter.write_line(f"  edit  {_as_typed(kata, kata.stub_path)}", cyan=True)
    reporter.write_line(f"  run   pytest {_as_typed(kata, kata.test_path)}", cyan=True)
    reporter.write_line(f"  hint  debubble hint {kata.name}", cyan=True)


def _praise(solved: Sequence[Kata]) -> str:
    """How far the learner is, as far as this run can know it."""
    chapters = {kata.chapter for kata in solved}
    of_chapters = [kata for kata in Catalogue(solved[0].root).katas if kata.chapter in chapters]
    if len(solved) == len(of_chapters):
        return "All solved: on to the next chapter."
    others = of_chapters[of_chapters.index(solved[-1]) + 1 :] or of_chapters
    following = next(kata for kata in others if kata not in solved)
    return f"Solved: on to {following.name}, pytest {_as_typed(following, following.test_path)}"


def _device_line(config: pytest.Config) -> str:
    try:
        accelerator = chosen_accelerator(config)
    except Exception as error:
        raise pytest.UsageError(str(error)) from error
    modelled = "counts are a GPU's, times are modelled"
    times = modelled if accelerator.modelled else "times are measured"
    return f"accelerator: {accelerator.description}; {times}"


def _code_line(config: pytest.Config) -> str:
    chosen = config.getoption("impl", "learner")
    whose = {
        "learner": "code under test: yours (--impl solutions tests ours)",
        "solutions": "code under test: our solutions, not yours",
    }.get(chosen, f"code under test: {chosen}, not yours")
    return whose if can_interrupt() else f"{whose}; endless loops are not stopped here"


def _as_typed(kata: Kata, path: Path) -> str:
    """As it is typed in the current folder, which may be that of the katas."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else kata.relative(path)
