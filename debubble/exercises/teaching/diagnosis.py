"""The text of a failing kata: expected, done, where, how it looks, why it costs, what to do."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from debubble.contract.source_line import SourceLine

WIDTH = 88


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The parts of a failure's text, in the order in which they are read."""

    expected: str
    """Completes "Expected …": `1 host sync`."""
    did: str
    """Completes "Your code …": `made 64 host syncs`."""
    lines: tuple[tuple[SourceLine, int], ...] = ()
    """Lines of code to look at, each with how many times it ran."""
    drawing: str = ""
    """A few lanes of the timeline, as text."""
    why: str = ""
    """Why it costs, or the likely cause."""

    def __str__(self) -> str:
        opening = f"Expected {self.expected}.\nYour code {self.did}."
        parts = [wrap(opening), *(_quoted(line, times) for line, times in self.lines)]
        parts += [textwrap.indent(self.drawing, "  ") if self.drawing else "", wrap(self.why)]
        return "\n\n".join(part for part in parts if part)

    def failure(self) -> KataFailure:
        return KataFailure(self)


class KataFailure(AssertionError):
    """The error of a failing claim: the code under test does not do what its kata asks for. Its
    text is that of the diagnosis."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(str(diagnosis))
        self.diagnosis = diagnosis


def _quoted(line: SourceLine, times: int) -> str:
    often = "" if times == 1 else f", {times} times"
    return f"At {_shown_place(line)}{often}:\n    {line.text}"


def _shown_place(line: SourceLine) -> str:
    """Returns the file and number of a line of code, as a path that a terminal can open if the file
    is below the current folder."""
    path = Path(line.file)
    if path.is_relative_to(Path.cwd()):
        return f"{path.relative_to(Path.cwd())}:{line.line}"
    return line.place


def wrap(text: str) -> str:
    """Returns the text wrapped by paragraph; indented lines are code and stay as they are."""
    lines = []
    for line in text.strip().splitlines():
        code = line.startswith("    ")
        lines += [line] if code or not line else textwrap.wrap(line, WIDTH)
    return "\n".join(lines)
