"""Wrong attempts: plausible code that must fail, each with a diagnosis of its own."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from .catalogue import Kata, WorkshopError
from .changed_solution import code_of_attempt

ATTEMPT_SUFFIXES = (".py", ".diff")


@dataclass(frozen=True, slots=True)
class WrongAttempt:
    """One attempt, and what its header says must come of it: the docstring of a .py, the text above
    the changes of a .diff."""

    kata: Kata
    path: Path
    fails: tuple[str, ...]
    """Exactly these tests fail."""
    may_fail: tuple[str, ...]
    """These may fail as well: where a race decides, a GPU does not always do so."""
    says: tuple[str, ...]
    """Words of which each is in what the failing tests say."""
    only_on: str | None = None
    """ "sim" or "cuda", for what the other accelerator need not show."""

    @property
    def label(self) -> str:
        return f"attempt {self.path.stem}"


def wrong_attempts(kata: Kata) -> list[WrongAttempt]:
    """All attempts at `kata`, by name; WorkshopError when one does not fit or lacks a line."""
    paths = sorted(kata.attempts_folder.glob("*.*"))
    return [_read(kata, path) for path in paths if path.suffix in ATTEMPT_SUFFIXES]


def _read(kata: Kata, path: Path) -> WrongAttempt:
    code_of_attempt(kata, path)
    text = path.read_text(encoding="utf-8")
    is_diff = path.suffix == ".diff"
    about = text.partition("\n@@")[0] if is_diff else ast.get_docstring(ast.parse(text)) or ""
    marks: dict[str, list[str]] = {"fails": [], "may fail": [], "says": [], "on": []}
    for line in about.splitlines():
        key, _, value = line.partition(":")
        if key in marks:
            marks[key].append(value.strip())
    for key in ("fails", "says"):
        if not marks[key]:
            raise WorkshopError(
                f"{kata.relative(path)} needs a line `{key}: ...` in its header "
                "(katas/README.md, Adding a kata)"
            )
    return WrongAttempt(
        kata=kata,
        path=path,
        fails=tuple(marks["fails"]),
        may_fail=tuple(marks["may fail"]),
        says=tuple(marks["says"]),
        only_on=marks["on"][0] if marks["on"] else None,
    )
