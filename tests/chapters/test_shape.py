"""The shape of a chapter: its beginning and end, and for every time whether it was measured."""

import re

import pytest

from .notebooks import READERS, Cell, cells_of

every_chapter = pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
PROMISES = ("You need", "Afterwards you can", "Time")
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
    assert minutes == pytest.approx(len(cells_of(path)), abs=15), "a minute a cell, as in the plan"


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
