"""The shape of a chapter: its beginning and end, and for every time whether it was measured."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from .notebooks import READERS, Cell, cells_of

every_chapter = pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
PROMISES = ("You need", "Afterwards you can", "Time")
CELLS_OF_MAIN_PATH = 60
LINES_OF_A_SCREEN, LETTERS_OF_A_SCREEN = 14, 1500
UNIT = re.compile(r"\b(?:micro|milli)seconds?\b|µs\b|\bms\b")
HOW = re.compile(r"measured|modelled|recorded|computed from|\{how\}|\{where\}")
COMMENT = re.compile(r"  #.*$", re.MULTILINE)
SHOWS = re.compile(r"^\s*print\(", re.MULTILINE)


@every_chapter
def test_it_begins_with_what_one_needs_what_one_will_be_able_to_do_and_how_long_it_takes(path):
    first = cells_of(path)[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", first.source, re.MULTILINE))
    assert set(PROMISES) <= set(rows)
    minutes = int(re.search(r"(\d+) minutes", rows["Time"])[1])
    main = [cell for cell in cells_of(path) if not cell.is_more]
    assert minutes == pytest.approx(len(main), abs=15), "a minute a cell, as in the plan"


@every_chapter
def test_the_main_path_is_short(path):
    assert sum(not cell.is_more for cell in cells_of(path)) <= CELLS_OF_MAIN_PATH


@every_chapter
def test_a_folded_part_begins_at_its_heading_and_ends_at_the_next(path):
    """JupyterLab folds all cells below a collapsed heading, up to the next heading of its level or
    a higher one."""
    cells = cells_of(path)
    for above, cell in pairwise(cells):
        if cell.is_more and not above.is_more:
            assert cell.source.startswith("### If you want to know more: "), cell.id
            assert cell.metadata["jp-MarkdownHeadingCollapsed"] is True, cell.id
        elif cell.is_more and not cell.source.startswith("### If you want to know more: "):
            assert not re.match(r"#{1,3} ", cell.source), cell.id
        elif above.is_more and not cell.is_more:
            assert re.match(r"#{2,3} ", cell.source), cell.id


@every_chapter
def test_the_main_path_needs_no_folded_cell(path):
    """A reader can run the main path alone: no cell of it uses a name that only a folded cell
    defines, and every question is asked and answered on it."""
    known, folded = set(), set()
    for cell in cells_of(path):
        if cell.kind != "code":
            continue
        assert not (cell.is_more and (".compare(" in cell.source and cell.is_collapsed)), cell.id
        tree = ast.parse(cell.source)
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        made = set(names_made(tree))
        used = {node.id for node in names if isinstance(node.ctx, ast.Load)} - made
        if cell.is_more:
            folded |= made - known
            continue
        assert not used & (folded - known), f"{cell.id} uses {used & (folded - known)}"
        known |= made


def names_made(tree: ast.Module) -> Iterator[str]:
    """Yields the names that a cell assigns, imports or defines, also inside its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg):
            yield node.arg if isinstance(node, ast.arg) else node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


@every_chapter
def test_it_does_not_open_on_plumbing(path):
    """A chapter's code reads no JSON and no files by itself: measurements come from
    solutions.measure.stored."""
    for cell in cells_of(path):
        if cell.kind == "code":
            assert not re.search(
                r"^\s*(?:import|from) json|json\.load|read_text\(\)\)", cell.source
            )


@every_chapter
def test_it_ends_with_what_to_take_home_on_one_screen(path):
    *_, predictions, last = (cell for cell in cells_of(path) if is_end(cell))
    assert cells_of(path)[-1] == last
    assert last.source.startswith("## To take home\n")
    assert last.source.count("\n") <= LINES_OF_A_SCREEN
    assert len(last.source) <= LETTERS_OF_A_SCREEN
    assert "show_predictions()" in predictions.source


def is_end(cell: Cell) -> bool:
    return cell.source == "show_predictions()" or "To take home" in cell.source


def without_a_label(cells: list[Cell]) -> list[str]:
    """Returns the ids of the code cells that print a time and don't say if it was measured or
    modelled."""
    code = {cell.id: COMMENT.sub("", cell.source) for cell in cells if cell.kind == "code"}
    return [
        name
        for name, source in code.items()
        if SHOWS.search(source) and UNIT.search(source) and not HOW.search(source)
    ]


@every_chapter
def test_every_time_is_said_to_be_measured_or_modelled(path):
    assert without_a_label(cells_of(path)) == []


@pytest.mark.parametrize(
    "source, is_found",
    [
        ('print(f"{t:.1f} microseconds")', True),
        ('print(f"{t:.1f} microseconds ({how})")', False),
        ('print("measured on an H200, in ms")', False),
        ("gpu.sleep(5)  # milliseconds", False),
        ('print("waits", n)', False),
    ],
)
def test_a_time_without_a_label_is_found(source, is_found):
    assert bool(without_a_label([Cell("cell", "code", source, "", {})])) == is_found


def test_chapter_04_has_a_place_to_stop_in_its_middle():
    cells = cells_of(READERS[4])
    (place,) = [n for n, cell in enumerate(cells) if "### A place to stop" in cell.source]
    assert 0.3 < place / len(cells) < 0.6
