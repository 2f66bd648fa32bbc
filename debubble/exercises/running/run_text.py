"""The text of a run of the katas: accelerator and code at the start, at the end the state of each
kata and the next step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from debubble.private.pytest import leave_out_of_the_summary
from debubble.progress import Standing

from ..kata_files.catalogue import Kata
from ..kata_files.progress import Progress
from ..kata_files.tables import ExerciseError
from ..kata_files.typed import typed
from ..kata_files.workspace import Workspace
from .course import Course
from .time_limit import can_interrupt
from .under_test import chosen_accelerator, chosen_device

DEFAULT_REPORT = "fE"
"""pytest's own choice of what to list again at the end; the scoreboard replaces it."""
A_FEW = 10
"""The most katas that get a line each, as many as a chapter has. With more, only the first unsolved
kata gets one, and a run of all katas has a line per chapter."""
MOST_NAMES = 5
"""The most names of failed tests that `progress.jsonl` records of an attempt."""


@dataclass
class Score:
    """The results of a kata's tests in one run."""

    tests: int = 0
    """The number of its tests that the run was asked for."""
    reports: list[pytest.TestReport] = field(default_factory=list)
    """The reports of its tests; a run that was stopped lacks some."""

    @property
    def passed(self) -> int:
        names = {report.nodeid for report in self.reports if report.passed}
        return len(names - {report.nodeid for report in self.reports if not report.passed})

    @property
    def skipped(self) -> int:
        """The number of tests that skipped themselves, since this machine lacks what they need."""
        return sum(report.skipped and not hasattr(report, "wasxfail") for report in self.reports)

    @property
    def failures(self) -> list[str]:
        """The names of the tests that failed."""
        failed = [report.nodeid for report in self.reports if report.failed]
        return [*dict.fromkeys(nodeid.partition("::")[2] for nodeid in failed)]

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

    With `-v` all failures are shown, and once.
    """
    if katas and reporter.config.option.reportchars == DEFAULT_REPORT:
        reporter.reportchars = "w"
    if reporter.config.option.verbose > 0:
        return
    unsolved = [kata for kata, score in katas.items() if not score.solved]
    for kata in unsolved[1:]:
        for report in katas[kata].reports:
            # pytest leaves out what a debugger has already shown.
            leave_out_of_the_summary(report)


def write_scoreboard(
    reporter: pytest.TerminalReporter, katas: dict[Kata, Score], course: Course
) -> None:
    """Writes the end of a run: a line for each kata, or with many katas only for the first unsolved
    one. In a run of the learner's code it also updates the progress file, includes the recorded
    katas, and writes what to do next."""
    reporter.section("katas", bold=True)
    remarks = [*course.workspace.remarks(course.catalogue)] if course.mine else []
    before: set[Kata] = set()
    if course.mine:
        progress = Progress(course.workspace)
        try:
            standings = progress.standings()
            before = {kata for kata in course.catalogue.katas if _is_solved(standings, kata)}
            attempts = [*_attempts(katas, course, chosen_device(reporter.config))]
            if attempts:
                progress.add_all(attempts)
        except ExerciseError as error:
            remarks.append(f"This run is not recorded: {error}")
    passed = [kata for kata, score in katas.items() if score.solved]
    whole = [kata for kata in passed if course.is_tested_whole(kata, katas[kata].tests)]
    now = [kata for kata in whole if not (course.mine and course.workspace.is_untouched(kata))]
    for kata in whole:
        if kata not in now and kata not in before:
            remarks.append(
                f"{kata.name} passes although you have not begun it: it is not counted as solved."
            )
    solved = before - (katas.keys() - set(passed)) | {*now}
    unsolved = [kata for kata, score in katas.items() if not score.solved]
    _write_katas(reporter, katas if len(katas) <= A_FEW else _first(katas, unsolved))
    if course.is_whole and len({kata.chapter for kata in course.catalogue.katas}) > 1:
        _write_chapters(reporter, course.catalogue.katas, solved)
    for remark in remarks:
        reporter.write_line(remark, yellow=True)
    if not course.mine:
        reporter.write_line(f"{len(passed)} of {len(katas)} pass.", green=not unsolved)
        return
    all_of_them = course.catalogue.katas
    reporter.write_line(f"{len(solved)} of {len(all_of_them)} solved.", green=not unsolved)
    fresh = [kata for kata in now if kata not in before]
    for kata in now if len(katas) == 1 else fresh[-1:]:
        _write_afterwards(reporter, kata)
    if set(passed) - set(whole):
        reporter.write_line(
            "All tests that ran passed. A kata is solved when all of its tests have run and passed."
        )
    elif unsolved:
        _write_what_failed(reporter, katas, unsolved, course)
    else:
        _write_what_follows(reporter, [*katas][-1], all_of_them, solved)


def _attempts(
    katas: dict[Kata, Score], course: Course, device: str
) -> Iterator[tuple[str, Kata, dict[str, object]]]:
    """Yields the attempts that `progress.jsonl` gets, as (kind, kata, fields of the event): runs of
    all tests of a kata on a file that its learner has changed."""
    for kata, score in katas.items():
        known = score.failed or score.solved
        if known and course.is_tested_whole(kata, score.tests):
            if course.workspace.is_untouched(kata):
                continue
            about: dict[str, object] = {
                "verdict": "passed" if score.solved else "failed",
                "passed": score.passed,
                "tests": score.tests - score.skipped,
                "failed": score.failures[:MOST_NAMES],
                "device": device,
            }
            yield "attempt", kata, about


def _is_solved(standings: Mapping[str, Standing], kata: Kata) -> bool:
    return kata.name in standings and standings[kata.name].solved


def _first(katas: dict[Kata, Score], unsolved: Sequence[Kata]) -> dict[Kata, Score]:
    return {kata: katas[kata] for kata in unsolved[:1]}


def _write_katas(reporter: pytest.TerminalReporter, katas: dict[Kata, Score]) -> None:
    width = max((len(kata.label) for kata in katas), default=0)
    for kata, score in katas.items():
        mark, verdict = ("✔", "") if score.solved else ("·", "not solved: ")
        line = f" {mark} {kata.label:<{width}}  {verdict}{score}"
        reporter.write_line(line, green=score.solved)


def _write_chapters(
    reporter: pytest.TerminalReporter, katas: Sequence[Kata], solved: Collection[Kata]
) -> None:
    for (chapter, system), group in groupby(katas, lambda kata: (kata.chapter, kata.system)):
        members = [kata in solved for kata in group]
        marks = "".join("✔" if one else "·" for one in members)
        line = f" {chapter} {system:<12} {marks:<12} {sum(members):>2} of {len(members)}"
        reporter.write_line(line, green=all(members))


def _write_afterwards(reporter: pytest.TerminalReporter, kata: Kata) -> None:
    """Writes what can be learnt from a kata once it is solved."""
    reporter.write_line("")
    reporter.write_line(f"Solved: {kata.title}.", green=True, bold=True)
    for text in filter(None, [kata.differs, kata.try_this and f"Now try: {kata.try_this}"]):
        for line in text.splitlines():
            reporter.write_line(f"  {line}")
    reporter.write_line(f"  ours  {typed(f'debubble diff {kata.name}')}", cyan=True)


def _write_what_failed(
    reporter: pytest.TerminalReporter,
    katas: dict[Kata, Score],
    unsolved: Sequence[Kata],
    course: Course,
) -> None:
    kata = unsolved[0]
    quiet = reporter.config.option.verbose <= 0
    others = " (-v also shows the failures of the other katas)" if quiet and unsolved[1:] else ""
    failures = f"Its failures are above{others}."
    if not katas[kata].failed:
        failures = "Nothing failed, but not all of its tests ran to the end."
    reporter.write_line("")
    reporter.write_line(f"Next: {kata.title}. {failures}")
    _write_next(reporter, kata, course.workspace.file_of(kata))
    if course.is_limited and not course.goes_on and len(course.asked_for) > len(katas):
        reporter.write_line("Stopped at the first kata that is not solved: --all runs the rest.")


def _write_what_follows(
    reporter: pytest.TerminalReporter, last: Kata, katas: Sequence[Kata], solved: Collection[Kata]
) -> None:
    at = katas.index(last) + 1
    left = [kata for kata in [*katas[at:], *katas[:at]] if kata not in solved]
    following = next((kata for kata in left if not kata.optional), left[0] if left else None)
    if following is None:
        reporter.write_line("All solved.", green=True)
        return
    reporter.write_line("")
    reporter.write_line(f"Next: {following.title}, chapter {following.chapter}.")
    _write_next(reporter, following, Workspace(following.root).file_of(following))


def _write_next(reporter: pytest.TerminalReporter, kata: Kata, file: Path) -> None:
    if file == kata.stub_path and Workspace(kata.root).is_untouched(kata):
        reporter.write_line(f"  begin {typed(f'debubble next {kata.name}')}", cyan=True)
    else:
        reporter.write_line(f"  edit  {_as_typed(kata, file)}", cyan=True)
    run = typed(f"pytest {_as_typed(kata, kata.test_path)}")
    reporter.write_line(f"  run   {run}", cyan=True)
    reporter.write_line(f"  hint  {typed(f'debubble hint {kata.name}')}", cyan=True)


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
    """Returns the path as typed in the current folder, which may be the katas' folder."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else kata.relative(path)
