"""References: each chapter has a reader's notebook and a reference with the same cells and the
outputs."""

import json
import os
import re
import subprocess
import sys

import pytest

from .notebooks import READERS, REFERENCES, ROOT, cells_of

every_chapter = pytest.mark.parametrize(
    "reader, reference",
    list(zip(READERS, REFERENCES, strict=True)),
    ids=[path.stem for path in READERS],
)


@every_chapter
def test_both_have_the_same_cells(reader, reference):
    assert reader.name == reference.name
    mine, theirs = (
        [(cell.id, cell.kind, cell.source, cell.metadata) for cell in cells_of(path)]
        for path in (reader, reference)
    )
    assert mine == theirs, "run scripts/store_chapters.py"


@every_chapter
def test_above_the_first_question_both_show_the_same_and_below_it_the_reader_nothing(
    reader, reference
):
    asked = False
    for mine, theirs in zip(cells_of(reader), cells_of(reference), strict=True):
        asked = asked or theirs.asks
        assert mine.shown == ("" if asked else theirs.shown), mine.id
    assert asked, "this chapter asks nothing"


@every_chapter
def test_a_cell_without_outputs_has_no_execution_count(reader, reference):
    """Cells of a reader's notebook without an execution count have no outputs, since nbval refuses
    outputs without a count."""
    for cell in json.loads(reader.read_text())["cells"]:
        if cell["cell_type"] == "code" and cell["execution_count"] is None:
            assert cell["outputs"] == []


@pytest.fixture
def beginning(tmp_path):
    """Returns (path, notebook) for the beginning of a reference, up to the first cell that answers
    a question. The path is not written yet."""
    notebook = json.loads(REFERENCES[0].read_text())
    answered = next(n for n, cell in enumerate(notebook["cells"]) if ".compare(" in source(cell))
    notebook["cells"] = notebook["cells"][: answered + 1]
    return tmp_path / REFERENCES[0].name, notebook


def source(cell):
    return "".join(cell["source"])


def cells_that_differ(path, notebook):
    """Writes the notebook to `path` and runs nbval on it with sim. Returns how many cells' outputs
    differ from the stored ones, and how many agree."""
    path.write_text(json.dumps(notebook))
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "conftest"]
    options += ["-p", "no:cacheprovider", "-p", "no:python", "--nbval", "--nbval-current-env"]
    python_path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", str(path)],
        cwd=path.parent,
        # Pytest reports each failure twice if CI is set.
        env={name: value for name, value in os.environ.items() if name != "CI"}
        | {"DEBUBBLE_ANSWERS": "at once", "DEBUBBLE_DEVICE": "sim"}
        | {"PYTHONPATH": os.pathsep.join(python_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    counts = re.findall(r"(\d+) (failed|passed)", done.stdout)
    found = {outcome: int(count) for count, outcome in counts}
    assert found, done.stdout + done.stderr
    assert done.stdout.count("Cell outputs differ") == found.get("failed", 0), done.stdout
    return found.get("failed", 0), found.get("passed", 0)


def test_another_number_in_a_reference_fails_where_it_stands(beginning):
    path, notebook = beginning
    (answer,) = notebook["cells"][-1]["outputs"]
    text = "".join(answer["data"]["text/plain"])
    digit = next(letter for letter in text if letter.isdecimal())
    answer["data"]["text/plain"] = text.replace(digit, str((int(digit) + 1) % 10), 1)
    code = sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    assert cells_that_differ(path, notebook) == (1, code - 1)
