"""`debubble new-kata`: the files of a new kata, for which all claims hold at once."""

import pytest
from typer.testing import CliRunner

from debubble.cli import app
from debubble.exercises.proof.check import check

pytestmark = pytest.mark.sim


@pytest.fixture
def new_kata():
    return lambda *arguments: CliRunner().invoke(app, ["new-kata", *arguments])


def files_in(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_claims_about_a_new_kata_hold_at_the_first_run(new_kata, workbook, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", "sim")
    workbook.write("tests/correct_variants/tiny/add_up/twice.diff", "Adds up.\n")
    said = new_kata("count_up", "--system", "tiny")
    assert said.exit_code == 0 and "wrote katas/tiny/count_up.py\n" in said.output
    verdicts = check(workbook.catalogue, "sim")
    assert not [verdict for verdict in verdicts if not verdict.holds]
    assert {verdict.kata for verdict in verdicts} == {"add_up", "count_up"}
    kata = workbook.catalogue.kata("count_up")
    assert (kata.title, kata.exported_names) == ("Count up", ("count_up",))
    assert (kata.variants_folder / "twice.diff").is_file()


def test_a_new_kata_comes_after_the_last_one_of_its_system(new_kata, workbook):
    entry = workbook.catalogue.file.read_text()
    other = entry.replace('"tiny"', '"small"').replace('name = "add_up"', 'name = "sum_up"')
    workbook.write("katas/katas.toml", entry + other)
    assert new_kata("count_up", "--system", "tiny").exit_code == 0
    names = [kata.label for kata in workbook.catalogue.katas]
    assert names == ["tiny/add_up", "tiny/count_up", "small/sum_up"]


@pytest.mark.parametrize(
    ("name", "system", "sentence"),
    [
        ("add_up", "tiny", "there is a kata 'add_up' already: choose another name"),
        ("count-up", "tiny", "'count-up' can't be a kata's name: write a Python identifier"),
        ("class", "tiny", "'class' can't be a kata's name: write a Python identifier"),
        ("test_up", "tiny", "'test_up' can't be a kata's name: write a Python identifier"),
        ("given", "tiny", "'given' can't be a kata's name: write a Python identifier"),
        ("count_up", "tinny", "there is no system 'tinny': did you mean 'tiny'?"),
        ("mine", "tiny", "katas/tiny/test_mine.py exists already: choose another name than 'mine'"),
    ],
)
def test_a_name_that_cannot_be_used_is_a_sentence_and_nothing_is_written(
    new_kata, workbook, name, system, sentence
):
    workbook.write("katas/tiny/test_mine.py", "")
    before = files_in(workbook.root)
    said = new_kata(name, "--system", system)
    assert said.exit_code == 2 and sentence in said.output
    assert len(said.output.strip().splitlines()) == 1
    assert files_in(workbook.root) == before
