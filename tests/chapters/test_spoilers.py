"""Questions of a chapter can't be answered by looking: not from text, outputs, tables or
asserts."""

import pytest

from .notebooks import REFERENCES, Cell, cells_of
from .spoilers import questions, spoilers

every_chapter = pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)

OF_A_SITE = "what a site sends by itself, or the step sent before: asked is the planned step"
INNOCENT = {
    **{
        ("02", "uploads", f"cell-{cell}"): OF_A_SITE
        for cell in ("08", "12", "24", "27a", "30", "31a", "35b", "37")
    },
    ("02", "site_waits", "cell-06"): "the number of a request",
    ("05", "merged", "cell-09"): "the number of a block",
}
"""Findings that give no answer away, with the reason, by (chapter, question, cell)."""


@every_chapter
def test_no_answer_is_within_sight_before_one_commits(path):
    found = [
        (question, cell, what)
        for question, cell, what in spoilers(cells_of(path))
        if (path.name[:2], question, cell) not in INNOCENT
    ]
    assert found == []


@every_chapter
def test_every_question_is_answered_once_and_later(path):
    cells = cells_of(path)
    asked = [cell for cell in cells if cell.asks]
    assert len(list(questions(cells))) == len(asked) >= 2


@every_chapter
def test_a_cell_that_explains_an_answer_is_collapsed(path):
    cells = cells_of(path)
    for question in questions(cells):
        cell = cells[question.answered]
        explains = len(cell.shown.strip().splitlines()) > 1
        assert cell.is_collapsed or not explains, cell.id
        # JupyterLab shows the first line of a collapsed cell.
        assert not cell.is_collapsed or cell.source.startswith("# What happened.\n"), cell.id


def test_what_is_called_innocent_is_found():
    found = {
        (path.name[:2], question, cell)
        for path in REFERENCES
        for question, cell, _ in spoilers(cells_of(path))
    }
    assert set(INNOCENT) <= found


def code(name, source, shown="", collapsed=False):
    metadata = {"jupyter": {"source_hidden": True}} if collapsed else {}
    return Cell(name, "code", source, shown, metadata)


def text(source):
    return Cell("text", "markdown", source, "", {})


ASKS = code("asks", 'waits = predict("how many?", "waits")\nwaits', "Predict: how many?")
ANSWERS = code("answers", 'waits.compare(n, "Each.")', "72 waits\nEach.", collapsed=True)
MANY = code("answers", "waits.compare(n)", "55 waits", collapsed=True)
CHOICE = code(
    "asks",
    'line = predict_line("Which line makes the host wait?", LINES)\nline',
    "Predict: Which line makes the host wait?\n  ( ) loss.item()\n  ( ) loss += 1",
)
CHOSEN = code("answers", "line.compare(LINES[0])", "loss.item()", collapsed=True)
FEW = code("answers", "waits.compare(n)", "3 waits", collapsed=True)


@pytest.mark.parametrize(
    "above, answer, below",
    [
        ([code("run", "run()", "before   72   41.92")], ANSWERS, []),
        ([text("It waits 72 times.")], ANSWERS, []),
        ([text("## The 72 waits")], ANSWERS, []),
        ([], ANSWERS, [code("check", 'assert counts["host_syncs"] == 3 * 24')]),
        ([], ANSWERS, [text("So there are 72.")]),
        ([code("run", "run()", "kernels=3, host_syncs=72")], ANSWERS, []),
        ([code("run", "run()", "host_syncs=3")], FEW, []),
        ([code("run", "run()", "        waits  graphs\neager       3       0")], FEW, []),
        ([text("In all three waits.")], FEW, []),
        ([text("In all fifty-five waits.")], MANY, []),
        ([text("There are 3 long waits.")], FEW, []),
        ([], FEW, [code("check", 'assert counts["host_syncs"] == 3')]),
    ],
)
def test_an_answer_within_sight_is_found(above, answer, below):
    assert list(spoilers([*above, ASKS, answer, *below]))
    assert list(spoilers([ASKS, *above, answer, *below]))


@pytest.mark.parametrize(
    "words, is_found",
    [
        ("The host stops: the line loss.item() makes it wait.", True),
        ("Here loss.item() reads a number.", False),
        ("Does the line loss.item() or loss += 1 make the host wait?", False),
    ],
)
def test_a_sentence_that_says_the_right_choice_is_found(words, is_found):
    assert bool(list(spoilers([text(words), CHOICE, CHOSEN]))) == is_found


@pytest.mark.parametrize(
    "cells",
    [
        [ASKS, ANSWERS],
        [text("24 layers, and 3 things in each"), ASKS, ANSWERS],
        [ASKS, ANSWERS, code("show", "show()", "72")],
        [code("run", "run()", "host_syncs=3, kernels=72"), ASKS, ANSWERS],
        [ASKS, ANSWERS, text("# Next\n\nThose 72 waits")],
        [text("3 layers"), ASKS, FEW],
        [code("run", "assert layers == 3"), ASKS, FEW],
        [code("run", "f()", "        waits  graphs\neager       4       3"), ASKS, FEW],
    ],
)
def test_what_gives_nothing_away_is_left_alone(cells):
    assert list(spoilers(cells)) == []


def test_a_question_that_is_never_answered_is_an_error():
    with pytest.raises(ValueError, match="waits, asked in asks, is never answered"):
        list(questions([ASKS]))
