"""The kit's plans: their minutes add up, and what they name is there."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from debubble.commands.board.questions import cells_of
from debubble.exercises.kata_files.catalogue import Catalogue

pytest.importorskip("mistune", reason="slides are made where the chapters' packages are")

from workshop.kit.cells import source_of
from workshop.kit.deck import deck
from workshop.kit.questions import asked_in

from .chapters import ROOT, chapter_of

KATAS = Catalogue(ROOT).katas
pytestmark = pytest.mark.sim
PLANS = sorted((ROOT / "workshop/kit/plans").glob("*.md"))
HOURS = {"three and a half hours": 210, "seven hours": 420}


def rows_of(plan: Path) -> list[tuple[int, int]]:
    """Returns (the minute at which it begins, its minutes) of each row of a plan."""
    found = re.findall(r"^\| (\d):(\d\d) \| (\d+) \|", plan.read_text(), re.MULTILINE)
    return [(60 * int(hours) + int(minutes), int(lasts)) for hours, minutes, lasts in found]


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
def test_a_plan_names_katas_that_there_are_and_its_minutes_add_up(plan):
    text = plan.read_text()
    words = {word for word in re.findall(r"`([a-z_]+)`", text) if "_" in word} - {"no_host_syncs"}
    assert words <= {kata.name for kata in KATAS}
    rows = rows_of(plan)
    for (begins, lasts), (next_begins, _) in pairwise(rows):
        assert begins + lasts == next_begins, begins
    promised = [minutes for words, minutes in HOURS.items() if words in text.splitlines()[0]]
    assert [sum(lasts for _, lasts in rows)] == promised or not rows, "the heading's hours"


def test_the_day_has_the_minutes_of_the_half_day_that_it_names():
    half, day = (rows_of(ROOT / f"workshop/kit/plans/{name}-day.md") for name in ("half", "one"))
    assert "without its last ten minutes" in (ROOT / "workshop/kit/plans/one-day.md").read_text()
    assert half[-1][1] == 10
    assert day[0] == (0, sum(lasts for _, lasts in half) - 10)


def test_each_week_is_two_hours():
    text = (ROOT / "workshop/kit/plans/six-weeks.md").read_text()
    spans = re.findall(r"(\d):(\d\d)–(\d):(\d\d)", text)
    times = [60 * int(one) + int(two) for span in spans for one, two in (span[:2], span[2:])]
    assert times == sorted(times) and (times[0], times[-1]) == (0, 120)


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
def test_the_slides_and_sections_that_a_plan_names_are_there(plan):
    text = plan.read_text()
    for number, heading in re.findall(r"(\d\d): ([^|,]+), from the slides", text):
        shown = [getattr(slide, "section", "") for slide in deck(cells_of(chapter_of(number)))]
        assert any(heading in section for section in shown), (heading, shown)
    for number, first, _, last in re.findall(
        r"(\d\d)(?:,|'s) sections? (\d+)((?: and | to )(\d+))?", text
    ):
        source = "".join(map(source_of, cells_of(chapter_of(number))))
        for section in range(int(first), int(last or first) + 1):
            assert f"## {section}. " in source, (number, section)


NUMBERS = {"one prediction": 1, "the prediction": 1, "two predictions": 2, "prediction:": 1}


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
def test_the_sections_of_a_row_ask_as_often_as_the_plan_counts_on(plan):
    for line in plan.read_text().splitlines():
        named = re.search(r"(\d\d), sections? (\d+)(?: (?:and|to) (\d+))?", line)
        asks = max((count for words, count in NUMBERS.items() if words in line), default=0)
        if named and asks:
            number, first, last = named.groups()
            sections = range(int(first), int(last or first) + 1)
            asked = [one.section for one in asked_in(cells_of(chapter_of(number)))]
            found = [
                one for one in asked if one[:1].isdecimal() and int(one.split(".")[0]) in sections
            ]
            assert len(found) >= asks, (line, asked)


def test_the_story_of_each_chapter_that_a_team_may_choose_is_on_a_slide():
    text = (ROOT / "workshop/kit/plans/one-day.md").read_text()
    assert "the chapter of your choice, its story from the slides" in text
    named = re.findall(r"\b(0[2-5]) for\s", text)
    assert named == ["02", "03", "04", "05"]
    assert all(deck(cells_of(chapter_of(number)))[0].story for number in named)


def test_the_plans_name_slides():
    named = sum(plan.read_text().count("from the slides") for plan in PLANS)
    assert named >= 2 and "slide 1 of chapter 00" in (PLANS[0].parent / "half-day.md").read_text()
