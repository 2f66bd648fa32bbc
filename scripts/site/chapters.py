"""Chapters: their notebooks with all outputs, cut where a reader has to predict first."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from debubble.commands.board.questions import shown_name, widget_words
from debubble.views.embedding import MIME

from .page import Page
from .pictures import shrink

WIDGET = "application/vnd.jupyter.widget-view+json"
QUESTION = "Predict: "
MORE = "more"
FOLDED = "jp-MarkdownHeadingCollapsed"
SUMMARY = "Your predictions against what happened"
CHOICE = re.compile(r"^  \( \) (.*)$", re.MULTILINE)


def folder_of(root: Path) -> Path:
    """Returns the folder in which chapters are stored with all outputs."""
    references = root / "tests/chapters"
    return references if list(references.glob("*.ipynb")) else root / "chapters"


def pages(root: Path) -> list[Page]:
    return [page_of(path) for path in sorted(folder_of(root).glob("*.ipynb"))]


def page_of(path: Path) -> Page:
    notebook = nbformat.read(path, as_version=4)
    title = "".join(notebook.cells[0].source).partition("\n")[0].removeprefix("# ")
    questions = mark_questions(notebook.cells)
    mark_folds(notebook.cells)
    shrink(notebook.cells)
    name = f"{path.stem}.html"
    about = {"questions": questions, "race": has_race(notebook)}
    return Page(name, title, notebook, f"chapters/{path.name}", about)


def has_race(notebook: NotebookNode) -> bool:
    return any(
        "data-race=" in output.get("data", {}).get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    )


def stills(page: Page) -> int:
    """Returns how many live views of a chapter were stored without their data, and so stand
    still."""
    return sum(
        {"image/png", WIDGET} <= set(output.get("data", ())) and MIME not in output.data
        for cell in page.notebook.cells
        for output in cell.get("outputs", ())
    )


def mark_questions(cells: list[NotebookNode]) -> int:
    """Marks in the cells' metadata, for the template, which cell asks, which one answers, and which
    one sums up. Returns the number of questions."""
    named: dict[str, str] = {}
    asked = 0
    for cell in cells:
        site = cell.metadata["site"] = NotebookNode()
        if cell.cell_type != "code":
            continue
        # The cell may print more behind the answer.
        answer = next(widget_words(cell), "") or words_of(cell)
        for name, key in compared(cell.source):
            if name in named:
                site["answers"] = {"id": named[name], "answer": answer, "key": key}
        words = words_of(cell)
        if words.startswith(QUESTION):
            asked += 1
            question, *_ = words.removeprefix(QUESTION).splitlines()
            site["asks"] = {
                "id": f"question-{asked}",
                "question": question,
                "choices": CHOICE.findall(words),
            }
            if name := shown_name(cell.source):
                named[name] = f"question-{asked}"
        if words.startswith(SUMMARY):
            site["sums_up"] = True
    return asked


def mark_folds(cells: list[NotebookNode]) -> None:
    """Marks in the cells' metadata, for the template, where each folded part begins and ends. Its
    heading moves from the first cell's source to the metadata. Raises ValueError for a question in
    a folded part, because the rest of the chapter would lie behind it."""
    for part in folds(cells):
        first, last = part[0], part[-1]
        heading, _, rest = first.source.partition("\n")
        if any(cell.metadata.site.get("asks") for cell in part):
            raise ValueError(f"{heading!r} is folded and asks a question: ask on the main path")
        first.metadata.site["fold"], first.source = heading, rest.strip()
        last.metadata.site["ends_fold"] = True


def folds(cells: list[NotebookNode]) -> list[list[NotebookNode]]:
    """Returns the cells of each folded part, its heading first. A collapsed heading begins a part,
    which ends before the next one, or before the first cell without the tag `more`."""
    parts: list[list[NotebookNode]] = []
    is_inside = False
    for cell in cells:
        is_more = MORE in cell.metadata.get("tags", ())
        begins = is_more and FOLDED in cell.metadata
        is_inside = begins or (is_inside and is_more)
        if begins:
            parts.append([])
        if is_inside:
            parts[-1].append(cell)
    return parts


def words_of(cell: NotebookNode) -> str:
    """Returns the text of a cell's last output, as for readers without a live widget."""
    for output in reversed(cell.outputs):
        if output.output_type == "stream":
            return output.text.strip()
        if "text/plain" in output.get("data", {}):
            return output.data["text/plain"]
    return ""


def compared(source: str) -> list[tuple[str, str]]:
    """Returns (name, answer) for each call of `.compare(` in a cell's source: the name of the
    question, and the expression of the answer."""
    return [
        (call.func.value.id, ast.unparse(call.args[0]))
        for call in ast.walk(ast.parse(clean(source)))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "compare"
        and isinstance(call.func.value, ast.Name)
        and call.args
    ]


def clean(source: str) -> str:
    """Returns a cell's source without lines that only IPython understands."""
    return "\n".join("" if line.startswith(("%", "!")) else line for line in source.splitlines())
