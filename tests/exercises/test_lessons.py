"""The command `debubble lesson`, which shows what a system changed."""

import pytest
from typer.testing import CliRunner

from debubble.cli import app

TWO_SITES = """
[[pair]]
site = "adding"
before = "before.py"
after = "add_up.py"
idea = "One call adds everything."

[[pair]]
site = "counting"
before = "before.py"
after = "before.py"
idea = "Nothing changes here."
"""


@pytest.fixture
def lesson(workbook):
    folder = workbook.root / "solutions" / "tiny"
    (folder / "lesson.toml").write_text(TWO_SITES)

    def lesson(*arguments: str, toml: str | None = None):
        if toml is not None:
            (folder / "lesson.toml").write_text(toml)
        return CliRunner().invoke(app, ["lesson", *arguments])

    return lesson


def test_a_lesson_is_the_difference_of_its_files(lesson):
    said = lesson("tiny", "adding")
    assert said.exit_code == 0
    lines = said.output.splitlines()
    assert lines[0] == "tiny adding: 8 changed lines"
    assert lines[1] == "One call adds everything."
    assert lines[3:5] == ["--- solutions/tiny/before.py", "+++ solutions/tiny/add_up.py"]
    assert {"-        total += number", "+    return sum(numbers)"} <= set(lines)
    assert sum(line.startswith(("-", "+")) for line in lines[5:]) == 8


def test_without_a_site_all_are_shown(lesson):
    said = lesson("tiny").output
    assert "tiny adding: 8 changed lines" in said
    assert "tiny counting: 0 changed lines\nNothing changes here." in said


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["tinny"], "there is no system 'tinny' with a lesson: did you mean 'tiny'?"),
        (["q"], "there is no system 'q' with a lesson: choose one of tiny"),
        (["tiny", "add"], "there is no site of tiny 'add' with a lesson: did you mean 'adding'?"),
        (["tiny", "q"], "there is no site of tiny 'q' with a lesson: choose one of adding, count"),
        pytest.param(
            ["tray"],
            "there is no system 'tray' with a lesson: choose one of tiny",
            id="a name that is not near",
        ),
    ],
)
def test_what_has_no_lesson_is_named_with_what_has_one(lesson, asked, sentence):
    said = lesson(*asked)
    assert said.exit_code == 2
    assert said.output.startswith(sentence)


def test_a_system_of_one_lesson_has_no_sites_to_choose_from(lesson):
    one = TWO_SITES.partition('[[pair]]\nsite = "counting"')[0]
    said = lesson("tiny", "q", toml=one.replace('site = "adding"\n', ""))
    assert said.exit_code == 2
    assert said.output.replace("\n", " ").startswith(
        "there is no site of tiny 'q' with a lesson: `debubble lesson tiny` shows the one it has"
    )


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[[pair]", "solutions/tiny/lesson.toml is not valid TOML: "),
        (
            "[[pair]]\nbefore = 'a.py'",
            "solutions/tiny/lesson.toml, [[pair]] 1: after, idea is missing",
        ),
        (
            TWO_SITES.replace("add_up.py", "gone.py"),
            "solutions/tiny/gone.py is not there: the lesson 'tiny adding' in tiny/lesson.toml na",
        ),
        pytest.param(
            "# None yet.",
            "solutions/tiny/lesson.toml has no [[pair]], the two files whose difference is",
            id="no pair",
        ),
    ],
)
def test_a_list_of_lessons_that_is_wrong_is_a_sentence(lesson, toml, sentence):
    said = lesson("tiny", toml=toml)
    assert said.exit_code == 2
    assert sentence in said.output
    assert "Traceback" not in said.output
