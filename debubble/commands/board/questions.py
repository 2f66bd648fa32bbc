"""The chapters' questions with their answers, from the notebooks that are stored with all outputs.

A question's cell shows "Predict: ..." as text, and the cell that compares shows the answer on one
line and the reason below it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STORED = "tests/chapters"
"""The folder with the chapters and all their outputs, from the repository's folder."""
QUESTION = "Predict: "
WIDGET = "application/vnd.jupyter.widget-view+json"
FOLDED = "If you want to know more: "
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CHOICE = re.compile(r"^  \( \) (.*)$", re.MULTILINE)

Cell = dict
"""A cell of a notebook, as JSON has it."""


@dataclass(frozen=True)
class Question:
    number: int
    """The number of the cell that asks, from 1, counted as JupyterLab lists the cells."""
    answered: int
    """The number of the cell that compares, or 0 if no cell does."""
    text: str
    choices: tuple[str, ...]
    answer: str
    """The answer in words; "" if the words are a picture's."""
    because: str


def answers(root: Path) -> dict[tuple[str, str], str]:
    """Returns the answer to each question of a repository's chapters and the reason for it, by
    (chapter's number, question). Empty without stored outputs, as in an installed package."""
    found = {}
    for path in _stored(root):
        for question in questions_of(cells_of(path)):
            if question.answered:
                said = f"{question.answer}." if question.answer else ""
                found[path.name[:2], question.text] = f"{said} {question.because}".strip()
    return found


def places(root: Path) -> dict[tuple[str, str], str]:
    """Returns the heading above each question of a repository's chapters, by (chapter's number,
    question). Empty without stored outputs, as in an installed package."""
    found = {}
    for path in _stored(root):
        cells = cells_of(path)
        headings = sections(cells)
        for question in questions_of(cells):
            found[path.name[:2], question.text] = headings[question.number - 1]
    return found


def _stored(root: Path) -> list[Path]:
    return sorted((root / STORED).glob("[0-9][0-9]_*.ipynb"))


def sections(cells: Sequence[Cell]) -> list[str]:
    """Returns the heading above each cell, without marks; the chapter's title above the first
    section. Of a folded part it has the words alone: "The recording"."""
    found, section = [], ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            headings = HEADING.findall("".join(cell["source"]))
            section = _without_fold(headings[-1]) if headings else section
        found.append(section)
    return found


def _without_fold(heading: str) -> str:
    words = heading.removeprefix(FOLDED)
    return heading if words == heading else words[:1].upper() + words[1:]


def cells_of(path: Path) -> list[Cell]:
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


def questions_of(cells: Sequence[Cell]) -> list[Question]:
    """Returns the questions of a chapter in their order, each with the answer that a later cell
    shows."""
    asking = [
        (number, cell, words)
        for number, cell in enumerate(cells, start=1)
        for words in widget_words(cell)
        if words.startswith(QUESTION)
    ]
    return [
        _question(number, cell, words, cells[number:], number) for number, cell, words in asking
    ]


def _question(number: int, cell: Cell, words: str, after: Sequence[Cell], offset: int) -> Question:
    text = words.removeprefix(QUESTION).partition("\n")[0]
    choices = tuple(CHOICE.findall(words))
    name = shown_name("".join(cell["source"]))
    for later, one in enumerate(after, start=offset + 1):
        if name and name in compared_names("".join(one["source"])):
            said, _, because = next(iter(widget_words(one)), "").partition("\n")
            answer = "" if said.endswith(":") else said
            return Question(number, later, text, choices, answer, because)
    return Question(number, 0, text, choices, "", "")


def widget_words(cell: Cell) -> Iterator[str]:
    """Yields the text of each widget that a cell shows: questions and answers are widgets."""
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if WIDGET in data and "image/png" not in data:
            yield "".join(data.get("text/plain", ""))


def shown_name(source: str) -> str:
    """Returns the name that a cell's last line shows, such as `q` below `q = predict("...")`; "" if
    it shows no name."""
    body = _tree(source).body
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    return last.id if isinstance(last, ast.Name) else ""


def compared_names(source: str) -> set[str]:
    """Returns the names on which a cell's source calls `.compare(...)`."""
    return {
        call.func.value.id
        for call in ast.walk(_tree(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "compare"
        and isinstance(call.func.value, ast.Name)
    }


def _tree(source: str) -> ast.Module:
    """Returns the syntax tree of a cell's source, without lines that only IPython understands."""
    lines = ("" if line.startswith(("%", "!")) else line for line in source.splitlines())
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        return ast.Module([], [])
