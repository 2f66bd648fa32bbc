"""The stored chapters: faults that nbval would let pass, and content that must never be committed.

A chapter's outputs are stored in its reference, in tests/chapters/; the reader's notebook has the
same cells (tests/chapters/test_references.py).
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

nbformat = pytest.importorskip("nbformat", reason="notebooks are read with nbformat")

CHAPTERS = Path(__file__).parent.parent / "chapters"
NOTEBOOKS = sorted(CHAPTERS.glob("*.ipynb"))
REFERENCES = sorted((Path(__file__).parent / "chapters").glob("*.ipynb"))
LARGEST_IMAGE = 200 * 1024
"""The most bytes of a picture in a chapter. A timeline's picture is a few tens of KB; a larger one
is a photograph or a mistake."""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# Texts that differ between machines or runs. Times belong into the timeline, not in text.
UNSTABLE = {
    "a folder of one machine": re.compile(r"/(?:tmp|home|root|work|Users|var)/\S*"),
    "a time": re.compile(r"\d\s?(?:ns|[µμu]s|ms|s|seconds)\b"),
    "an address": re.compile(r"\b0x[0-9a-f]{6,}\b"),
    "a date of no record": re.compile(
        r"\b(?<!NVIDIA H200, )(?<!NVIDIA H100 80GB HBM3, )20\d\d-\d\d-\d\d\b"
    ),
}
"""Patterns of texts that differ between machines or runs, and so must not be in a chapter's output,
by name. The date of a stored record is allowed: it follows the GPU's name."""

every_chapter = pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)
every_file = pytest.mark.parametrize(
    "path",
    [*NOTEBOOKS, *REFERENCES],
    ids=lambda path: f"{path.stem}-reference" if path in REFERENCES else path.stem,
)


def test_there_are_chapters_and_each_has_a_number_of_its_own():
    assert NOTEBOOKS, f"no notebook in {CHAPTERS}"
    numbers = [path.name[:3] for path in NOTEBOOKS]
    assert numbers == [f"{number:02d}_" for number in range(len(NOTEBOOKS))]


@every_file
def test_the_notebook_is_valid_and_runs_on_the_kernel_that_everyone_has(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"


@every_chapter
def test_cells_were_run_in_order_from_a_fresh_kernel(path):
    """The execution counts of a chapter's code cells are 1, 2, 3, …: nbval compares nothing for a
    cell without a count."""
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))


@every_chapter
def test_results_carry_the_count_of_their_cell(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            if output.output_type == "execute_result":
                assert output.execution_count == cell.execution_count, cell.source


@every_chapter
def test_every_expression_that_shows_something_has_a_stored_output(path):
    """A cell with a `print(` at the beginning of a line has stored text, since otherwise nbval has
    nothing to compare."""
    for cell in code_cells(path):
        if re.search(r"^print\(", cell.source, re.MULTILINE):
            assert any(output.output_type == "stream" for output in cell.outputs), cell.source


@every_chapter
def test_no_stored_error_and_no_stored_warning(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", f"{cell.source}\n{output.text}"


@every_file
def test_no_widget_state_is_stored(path):
    """No chapter stores widget state: it would be megabytes, and blank offline. The picture in the
    output stays."""
    assert "widgets" not in read(path).metadata


@every_file
def test_no_run_times_are_stored(path):
    """No chapter stores the run times of its cells: they would change with every run, and the file
    with them."""
    assert not [cell.source for cell in code_cells(path) if "execution" in cell.metadata]


@every_chapter
def test_every_widget_has_a_twin_that_needs_no_kernel(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            data = output.get("data", {})
            if WIDGET_VIEW in data:
                assert "text/plain" in data, cell.source


@every_chapter
def test_stored_pictures_are_small(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            for kind, content in output.get("data", {}).items():
                if kind.startswith("image/"):
                    size = picture_size(kind, content)
                    assert size <= LARGEST_IMAGE, f"{kind} of {size} bytes after {cell.source}"


@every_chapter
def test_stored_text_is_the_same_on_every_machine(path):
    for cell in code_cells(path):
        for text in texts(cell):
            for what, pattern in UNSTABLE.items():
                found = pattern.search(text)
                assert not found, f"{what}, {found.group()!r}, is printed by:\n{cell.source}"


@pytest.mark.parametrize(
    "text",
    ["took 12 µs", "3.5ms", "in /tmp/x/trace.json", "<object at 0x7f3a12bc>", "on 2026-01-02"],
)
def test_unstable_text_is_recognised(text):
    assert any(pattern.search(text) for pattern in UNSTABLE.values())


@pytest.mark.parametrize(
    "text",
    [
        "768 host syncs",
        "48 layers × 16 requests",
        "{'kernels': 3}",
        "measured on NVIDIA H200, 2026-11-20",
    ],
)
def test_counts_are_not_taken_for_unstable_text(text):
    assert not any(pattern.search(text) for pattern in UNSTABLE.values())


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[NotebookNode]:
    """Returns the notebook's code cells. Raises AssertionError if there is none, or if one is
    empty."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert cells, f"{path.name} has no code cell"
    empty = [index for index, cell in enumerate(cells) if not cell.source.strip()]
    assert not empty, f"{path.name}: code cells {empty} are empty"
    return cells


def texts(cell: NotebookNode) -> list[str]:
    """Returns what nbval compares: all printed text, and each text form of displayed objects."""
    printed = [output.text for output in cell.outputs if output.output_type == "stream"]
    shown = [
        content
        for output in cell.outputs
        for kind, content in output.get("data", {}).items()
        if kind.startswith("text/")
    ]
    return printed + shown


def picture_size(kind: str, content: str) -> int:
    """Returns the bytes of the picture itself; SVG is stored as text, other kinds in base64."""
    if kind == "image/svg+xml":
        return len(content.encode())
    return len(base64.b64decode(content))
