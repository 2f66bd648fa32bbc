"""A reader's copies of the chapters: saved files go to the workspace, and no edit is lost."""

import json

import pytest
from typer.testing import CliRunner

from debubble.cli import app
from debubble.exercises.kata_files.chapter_copies import ChapterCopies
from debubble.exercises.kata_files.progress import Progress
from debubble.exercises.kata_files.tables import ExerciseError
from debubble.exercises.kata_files.workspace import Workspace

pytestmark = pytest.mark.sim  # No test here uses a device.
NAME = "00_small.ipynb"


def cell(source, kind="code", **more):
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {}, **more}


def notebook(*cells):
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def copies(workbook):
    link = cell("See the [glossary](../docs/glossary.md#kernel).", "markdown")
    workbook.write(f"chapters/{NAME}", notebook(link, cell("1 + 1", outputs=[])))
    return ChapterCopies(Workspace(workbook.root))


def saved(copies, *cells):
    """Writes the learner's copy of a notebook with these cells, as JupyterLab saves it."""
    (copies.folder / NAME).write_text(notebook(*cells))


def cells_of(copies):
    return json.loads((copies.folder / NAME).read_text())["cells"]


def change_the_chapter(copies):
    path = copies.originals / NAME
    path.write_text(path.read_text().replace("1 + 1", "2 + 2"))


def test_a_copy_is_made_and_its_links_lead_where_they_led(copies, workbook):
    assert copies.update() == []
    text = "".join(cells_of(copies)[0]["source"])
    assert text == "See the [glossary](../../docs/glossary.md#kernel)."
    assert (copies.folder / "../../docs").resolve() == (workbook.root / "docs").resolve()


def test_the_chapter_itself_is_not_touched(copies):
    before = (copies.originals / NAME).read_bytes()
    copies.update()
    assert (copies.originals / NAME).read_bytes() == before


def test_what_was_run_stays_while_the_chapter_is_the_same(copies):
    copies.update()
    text, code = cells_of(copies)
    saved(copies, text, code | {"outputs": [{"text": "2"}], "execution_count": 1})
    assert copies.update() == []
    assert cells_of(copies)[1]["outputs"]


def test_edits_stay_while_the_chapter_is_the_same(copies):
    copies.update()
    saved(copies, cell("mine"))
    assert copies.update() == []
    assert cells_of(copies)[0]["source"] == ["mine"]


def test_a_copy_that_was_only_run_follows_the_chapter(copies):
    copies.update()
    text, code = cells_of(copies)
    saved(copies, text, code | {"outputs": [{"text": "2"}], "execution_count": 1})
    change_the_chapter(copies)
    assert copies.update() == []
    assert cells_of(copies)[1]["source"] == ["2 + 2"]


def test_a_copy_with_edits_stays_and_a_sentence_says_so(copies):
    copies.update()
    saved(copies, cell("mine"))
    change_the_chapter(copies)
    (remark,) = copies.update()
    assert remark.startswith(f"my/chapters/{NAME} has your edits") and remark.endswith(".")
    assert cells_of(copies)[0]["source"] == ["mine"]
    (copies.folder / NAME).rename(copies.folder / "mine.ipynb")
    assert copies.update() == []
    assert cells_of(copies)[1]["source"] == ["2 + 2"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}'])
def test_what_is_no_notebook_counts_as_edited(copies, text):
    copies.update()
    (copies.folder / NAME).write_text(text)
    change_the_chapter(copies)
    assert len(copies.update()) == 1
    assert (copies.folder / NAME).read_text() == text


def test_predictions_have_a_file_to_be_kept_in(copies):
    copies.update()
    progress = Progress(copies.workspace)
    assert progress.path.is_file() and progress.events() == []
    progress.add("prediction", chapter="00", cell="how many?", value="7")
    copies.update()
    assert len(progress.events()) == 1


def test_a_folder_that_cannot_be_written_is_refused_in_a_sentence(copies, workbook):
    workbook.write("my/chapters", "a file")
    with pytest.raises(ExerciseError, match=r"my/chapters/00_small\.ipynb can't be written"):
        copies.update()


def test_the_command_prints_the_folder_alone(copies, workbook):
    result = CliRunner().invoke(app, ["chapters"])
    assert result.stdout == f"{workbook.root / 'my' / 'chapters'}\n"
    saved(copies, cell("mine"))
    change_the_chapter(copies)
    again = CliRunner().invoke(app, ["chapters"])
    assert again.stdout == result.stdout and "has your edits" in again.stderr
