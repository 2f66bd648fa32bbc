"""The kit has the current texts of the chapters and katas, and needs no network."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from debubble.exercises.kata_files.attempts import wrong_attempts
from debubble.exercises.kata_files.catalogue import Catalogue

pytest.importorskip("mistune", reason="slides are made where the chapters' packages are")

from workshop.kit import room
from workshop.kit.mistakes import mistakes, what_it_does
from workshop.kit.questions import questions_of
from workshop.kit.slides import slides

ROOT = Path(__file__).parents[2]
KATAS = Catalogue(ROOT).katas
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
pytestmark = pytest.mark.sim


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "source": text}


def code(text: str, *outputs: dict) -> dict:
    return {"cell_type": "code", "source": text, "outputs": list(outputs)}


def test_every_wrong_attempt_of_every_kata_is_a_line():
    page = mistakes(KATAS)
    for kata in KATAS:
        assert f"(`{kata.name}`" in page
    attempts = [attempt for kata in KATAS for attempt in wrong_attempts(kata)]
    assert len(re.findall(r"^\| (?!what they do|---)", page, re.MULTILINE)) == len(attempts)
    assert all(what_it_does(attempt) for attempt in attempts)


def test_questions_are_found_with_their_cell_and_section():
    cells = [
        markdown("# 07 · Title\n\nStory."),
        code("from x import predict"),
        markdown("## 1. A wait"),
        code("waits = predict(\n    'how many | waits?', 'waits'\n)\nwaits"),
        code("most = predict_line('which line?', LINES)"),
        code("%timeit predict('no question of ours')"),
    ]
    found = [(one.cell, one.section, one.text) for one in questions_of(cells)]
    assert found == [(4, "1. A wait", "how many \\| waits?"), (5, "1. A wait", "which line?")]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_asks_and_becomes_slides_that_need_nothing_else(chapter):
    cells = json.loads(chapter.read_text())["cells"]
    assert list(questions_of(cells))
    page = slides(chapter)
    assert page.count("<section>") > 10
    parser = Loads()
    parser.feed(page)
    assert parser.loaded == []


class Loads(HTMLParser):
    """A parser that collects in `loaded` what a browser would load for an HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            loads = name in ("src", "srcset") or (name == "href" and tag == "link")
            if loads and not (value or "").startswith("data:"):
                self.loaded.append(f"{tag} {value}")


def test_code_and_output_are_shown_as_text(tmp_path):
    hostile = "<script>alert(1)</script>"
    output = {"output_type": "stream", "text": [hostile]}
    cells = [markdown(f"# 07 · Title\n\n{hostile}"), code(f"x = {hostile!r}", output)]
    (tmp_path / "07.ipynb").write_text(json.dumps({"cells": cells}))
    page = slides(tmp_path / "07.ipynb")
    assert page.count("<script>") == 1  # the slides' own
    assert page.count("&lt;script&gt;") == 3


def test_a_check_of_the_room_says_what_to_mend(monkeypatch, capsys):
    checks = {"a thing that is": lambda: "", "a thing that is not": lambda: "do this"}
    monkeypatch.setattr(room, "CHECKS", checks)
    assert room.main() == 1
    said = capsys.readouterr().out
    assert "ok  a thing that is" in said and "NO  a thing that is not" in said
    assert "    do this\n" in said and "1 of 2 checks failed: fix them first." in said


def test_the_rooms_kata_is_one():
    assert (ROOT / room.KATA).exists()


@pytest.mark.parametrize(
    "plan", sorted((ROOT / "workshop/kit/plans").glob("*.md")), ids=lambda p: p.stem
)
def test_a_plan_names_katas_that_there_are_and_its_minutes_add_up(plan):
    text = plan.read_text()
    words = {word for word in re.findall(r"`([a-z_]+)`", text) if "_" in word} - {"no_host_syncs"}
    assert words <= {kata.name for kata in KATAS}
    rows = re.findall(r"^\| (\d):(\d\d) \| (\d+) \|", text, re.MULTILINE)
    for (hours, minutes, lasts), (next_hours, next_minutes, _) in pairwise(rows):
        begins = 60 * int(hours) + int(minutes)
        assert begins + int(lasts) == 60 * int(next_hours) + int(next_minutes), (hours, minutes)
