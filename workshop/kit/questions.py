"""The questions that chapters ask before they answer them, in the order of a class."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

INTRODUCTION = """# Questions

Each is a *predict* cell. **Before** it: let one learner say aloud what the code above does, and
nothing about the answer. Everybody commits, you too. Ask two who differ why. **After** it: reveal
the histogram on the board, and ask those who were right how they knew; then find in the timeline
what the answer rests on. A question that all of you answered right needs no discussion.
"""


@dataclass(frozen=True)
class Question:
    cell: int
    """The number of the cell, as JupyterLab counts them, from 1."""
    section: str
    text: str


def questions(chapters: Sequence[Path]) -> str:
    lines = [INTRODUCTION]
    for path in chapters:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
        lines.append(f"## {title}\n\n| cell | section | question |\n| --- | --- | --- |")
        lines += [f"| {one.cell} | {one.section} | {one.text} |" for one in questions_of(cells)]
        lines.append("")
    return "\n".join(lines)


def questions_of(cells: Sequence[dict]) -> Iterator[Question]:
    section = ""
    for number, cell in enumerate(cells, start=1):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            headings = re.findall(r"^#+ (.+)$", source, re.MULTILINE)
            section = headings[-1] if headings else section
        elif "predict" in source:
            for text in _asked(source):
                yield Question(number, section, text.replace("|", "\\|"))


def _asked(source: str) -> Iterator[str]:
    """Yields the text of each question that a cell's source asks: the first argument of each call
    of `predict` and similar functions. A cell with a magic has none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            first = node.args[0] if node.args else None
            if node.func.id.startswith("predict") and isinstance(first, ast.Constant):
                yield str(first.value)
