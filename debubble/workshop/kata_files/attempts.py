"""Wrong attempts: plausible code that must fail, each with a diagnosis of its own."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from .catalogue import Kata, WorkshopError


@dataclass(frozen=True, slots=True)
class WrongAttempt:
    """One attempt, and what its docstring says must come of it."""

    kata: Kata
    path: Path
    summary: str
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
    """All attempts at `kata`, by name; raises WorkshopError when a docstring lacks a line."""
    return [_read(kata, path) for path in sorted(kata.attempts_folder.glob("*.py"))]


def _read(kata: Kata, path: Path) -> WrongAttempt:
    try:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except SyntaxError as error:
        place = f"{kata.relative(path)}, line {error.lineno}"
        raise WorkshopError(f"Python cannot read {place}: {error.msg}") from error
    marks: dict[str, list[str]] = {"fails": [], "may fail": [], "says": [], "on": []}
    summary = []
    for line in docstring.splitlines():
        key, colon, value = line.partition(":")
        if colon and key in marks:
            marks[key].append(value.strip())
        else:
            summary.append(line)
    for key in ("fails", "says"):
        if not marks[key]:
            raise WorkshopError(
                f"{kata.relative(path)} needs a line `{key}: ...` in its docstring "
                "(katas/README.md, Adding a kata)"
            )
    return WrongAttempt(
        kata=kata,
        path=path,
        summary=" ".join("\n".join(summary).split()),
        fails=tuple(marks["fails"]),
        may_fail=tuple(marks["may fail"]),
        says=tuple(marks["says"]),
        only_on=marks["on"][0] if marks["on"] else None,
    )
