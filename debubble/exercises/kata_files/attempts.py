"""Wrong attempts: plausible code that must fail, each with a diagnosis of its own."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.names import TESTS
from .catalogue import Kata
from .changed_solution import code_of_attempt
from .tables import ExerciseError

ATTEMPT_SUFFIXES = (".py", ".diff")
DEVICES = ("sim", "cuda")
LINES = "`fails: TEST`, `may fail: TEST`, `says: WORDS`, `on: sim`, `on: cuda`"
WHERE_TOLD = "katas/README.md, Adding a kata"


@dataclass(frozen=True, slots=True)
class WrongAttempt:
    """A wrong attempt at a kata, and the result that its header demands. The header is the
    docstring of a .py, or the text above the changes of a .diff."""

    kata: Kata
    path: Path
    fails: tuple[str, ...]
    """The tests that must fail. All tests but these and `may_fail` must pass."""
    may_fail: tuple[str, ...]
    """The tests that may fail as well: a race does not fail each time on a GPU."""
    says: tuple[str, ...]
    """Words that the text of the failing tests must contain, each of them."""
    only_on: str | None = None
    """"sim" or "cuda" if the attempt need not fail on the other accelerator."""

    @property
    def common_checks(self) -> tuple[str, ...]:
        """The tests of the common checks that its header names: the others don't run on it."""
        return tuple(test for test in (*self.fails, *self.may_fail) if test in TESTS.values())

    @property
    def label(self) -> str:
        return f"attempt {self.path.stem}"


def wrong_attempts(kata: Kata) -> list[WrongAttempt]:
    """Returns all attempts at `kata`, sorted by name. Raises ExerciseError when one does not fit
    the solution or its header lacks a line."""
    paths = sorted(kata.attempts_folder.glob("*.*"))
    return [_read(kata, path) for path in paths if path.suffix in ATTEMPT_SUFFIXES]


def _read(kata: Kata, path: Path) -> WrongAttempt:
    code_of_attempt(kata, path)
    text = path.read_text(encoding="utf-8")
    is_diff = path.suffix == ".diff"
    about = text.partition("\n@@")[0] if is_diff else ast.get_docstring(ast.parse(text)) or ""
    marks = _marks(about, kata.relative(path))
    return WrongAttempt(
        kata=kata,
        path=path,
        fails=tuple(marks["fails"]),
        may_fail=tuple(marks["may fail"]),
        says=tuple(marks["says"]),
        only_on=marks["on"][0] if marks["on"] else None,
    )


def _marks(about: str, place: str) -> dict[str, list[str]]:
    """Returns the values of each key in the last paragraph of a header. Raises ExerciseError if a
    line is not `key: value`, or a line that every header needs is missing."""
    marks: dict[str, list[str]] = {"fails": [], "may fail": [], "says": [], "on": []}
    for line in about.strip().rpartition("\n\n")[2].splitlines():
        key, _, value = line.partition(":")
        if key not in marks or not value.strip() or (key == "on" and value.strip() not in DEVICES):
            raise ExerciseError(f"{place}, header: {line!r} is none of {LINES} ({WHERE_TOLD})")
        marks[key].append(value.strip())
    for key in ("fails", "says"):
        if not marks[key]:
            raise ExerciseError(f"{place} needs a line `{key}: ...` in its header ({WHERE_TOLD})")
    return marks


def one_of_each_kind(attempts: Sequence[WrongAttempt]) -> list[WrongAttempt]:
    """Returns a few of a kata's attempts, in their order: each test that a header says must fail
    fails on one of them. The attempts that fail the most tests are chosen first."""
    chosen: set[Path] = set()
    to_see = {test for attempt in attempts for test in attempt.fails}
    for attempt in sorted(attempts, key=lambda attempt: -len(attempt.fails)):
        if to_see.intersection(attempt.fails):
            chosen.add(attempt.path)
            to_see.difference_update(attempt.fails)
    return [attempt for attempt in attempts if attempt.path in chosen]
