"""The questions that chapters ask before they answer them, with their answers, for a teacher."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from debubble.commands.board.questions import (
    Cell,
    Question,
    cells_of,
    questions_of,
    sections,
    shown_name,
)

from .cells import SENTENCE, SLIDE, before, paragraphs, printed, source_of

INTRODUCTION = """# Questions

Each is a *predict* cell. **Before** it: let one learner say aloud what the code above does, and
nothing about the answer. Everybody commits, you too. Ask two who differ why. **After** it: reveal
the histogram on the board, and ask those who were right how they knew; then find in the timeline
what the answer rests on. A question that all of you answered right needs no discussion.
"""
HEAD = "| cell | section | question | answer | because |\n| --- | --- | --- | --- | --- |"
MOST_LINES = 14
"""The most lines of code or output on a question's slide."""


@dataclass(frozen=True)
class Asked:
    """A question with what a class needs to see before it answers."""

    question: Question
    section: str
    about: str
    """The author's markdown from the cell's metadata, or else the paragraph above the question."""
    shown: str
    """The text that was printed for the question, or else its code. "" if neither is short, or if
    the author wrote what to show."""
    is_left_out: bool

    @property
    def answer(self) -> str:
        """The answer, or the first sentence of the reason if the answer is drawn in a picture."""
        return self.question.answer or SENTENCE.split(self.question.because)[0]

    @property
    def because(self) -> str:
        """The reason, without the sentence that is the answer."""
        why = self.question.because
        return why if self.question.answer else " ".join(SENTENCE.split(why)[1:])


def questions(chapters: Sequence[Path]) -> str:
    lines = [INTRODUCTION]
    for path in chapters:
        cells = cells_of(path)
        lines += [f"## {source_of(cells[0]).splitlines()[0].lstrip('# ')}\n", HEAD]
        lines += [_row(asked) for asked in asked_in(cells)]
        lines.append("")
    return "\n".join(lines)


def asked_in(cells: Sequence[Cell]) -> list[Asked]:
    headings = sections(cells)
    return [_asked(cells, question, headings) for question in questions_of(cells)]


def _asked(cells: Sequence[Cell], question: Question, headings: Sequence[str]) -> Asked:
    at = question.number - 1
    said = cells[at]["metadata"].get(SLIDE)
    is_written = isinstance(said, str)
    about, shown = (said, "") if is_written else (_about(cells, at), _shown(cells, at))
    return Asked(question, headings[at], about, shown, said is False)


def _row(asked: Asked) -> str:
    question = asked.question
    text = question.text
    if question.choices:
        text += " " + " / ".join(f"`{choice}`" for choice in question.choices)
    texts = (asked.section, text, asked.answer, asked.because)
    return f"| {question.number} | {' | '.join(map(_cell, texts))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _about(cells: Sequence[Cell], at: int) -> str:
    above = [cell for cell in before(cells, at) if cell["cell_type"] == "markdown"]
    found = paragraphs(above[0]) if above else []
    return found[-1] if found else ""


def _shown(cells: Sequence[Cell], at: int) -> str:
    """Returns what the question's own cell prints; else its code without the question, if it
    defines something that is no helper with a docstring; else what a cell above it prints."""
    own = printed(cells[at])
    code = _without_question(source_of(cells[at]))
    above = [printed(cell) for cell in before(cells, at) if cell["cell_type"] == "code"]
    is_asked_about = "def " in code and '"""' not in code
    for text in (own, code if is_asked_about else "", *above):
        if 0 < len(text.splitlines()) <= MOST_LINES:
            return textwrap.dedent(text)
    return ""


def _without_question(source: str) -> str:
    """Returns a cell's code without its question, and without the name that shows it."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return ""
    name = shown_name(source)
    last = next((one for one in body if _assigns(one, name)), None)
    lines = source.splitlines()
    return "\n".join(lines[: last.lineno - 1]).rstrip() if last else ""


def _assigns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )
