"""The kit has the current texts of the chapters and katas, and needs no network."""

import json
import re
import socket
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from debubble.commands.board.questions import STORED, cells_of
from debubble.exercises.kata_files.attempts import wrong_attempts
from debubble.exercises.kata_files.catalogue import Catalogue

pytest.importorskip("mistune", reason="slides are made where the chapters' packages are")

from workshop.kit import room
from workshop.kit.cells import source_of
from workshop.kit.deck import Lines, TakeHome, Title, deck
from workshop.kit.mistakes import mistakes, what_it_does
from workshop.kit.pictures import Picture
from workshop.kit.questions import Asked, asked_in, questions
from workshop.kit.slides import slides

ROOT = Path(__file__).parents[2]
KATAS = Catalogue(ROOT).katas
CHAPTERS = sorted((ROOT / STORED).glob("*.ipynb"))
pytestmark = pytest.mark.sim


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "source": text, "metadata": {}}


def code(text: str, *outputs: dict) -> dict:
    return {"cell_type": "code", "source": text, "outputs": list(outputs), "metadata": {}}


def test_every_wrong_attempt_of_every_kata_is_a_line():
    page = mistakes(KATAS)
    for kata in KATAS:
        assert f"(`{kata.name}`" in page
    attempts = [attempt for kata in KATAS for attempt in wrong_attempts(kata)]
    assert len(re.findall(r"^\| (?!what they do|---)", page, re.MULTILINE)) == len(attempts)
    assert all(what_it_does(attempt) for attempt in attempts)


def test_questions_have_their_cell_section_answer_and_reason():
    cells = [
        markdown("# 07 · Title\n\nStory."),
        code("from x import predict"),
        markdown("## 1. A wait\n\nRead this.\n\nThe loop runs twice."),
        code("q = predict('how many | waits?')\nq", widget("Predict: how many | waits?")),
        code("x = 1"),
        code("q.compare(x)\nprint(x)", widget("1 wait\nBecause it | waits."), printed("1")),
        code("w = predict_line('which?', L)\nw", widget("Predict: which?\n  ( ) a\n  ( ) b")),
        code("w.compare('b', 'It does.')", widget("b\nIt does.")),
        code("%timeit predict('no question of ours')"),
    ]
    first, second = asked_in(cells)
    assert (first.question.number, first.question.answered, first.section) == (4, 6, "1. A wait")
    assert (first.question.answer, first.question.because) == ("1 wait", "Because it | waits.")
    assert first.about == "The loop runs twice."
    assert second.question.choices == ("a", "b") and second.question.answer == "b"


def widget(words: str) -> dict:
    data = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": words}
    return {"output_type": "display_data", "data": data}


def printed(text: str) -> dict:
    return {"output_type": "stream", "text": [text]}


def test_the_page_of_questions_answers_every_question():
    page = questions(CHAPTERS)
    rows = re.findall(r"^\| \d+ \|.*\|$", page, re.MULTILINE)
    assert len(rows) == sum(len(asked_in(cells_of(path))) for path in CHAPTERS) >= 38
    for row in rows:
        *_, answer, because = (part.strip() for part in re.split(r"(?<!\\)\|", row)[:-1])
        assert answer and because, row


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_becomes_at_most_15_slides_with_5_pictures_or_more(chapter):
    slides_of = deck(cells_of(chapter))
    kinds = Counter(type(slide).__name__ for slide in slides_of)
    assert len(slides_of) <= 15, kinds
    assert kinds["Picture"] >= 5 and kinds["Asked"] >= 3 and kinds["Lines"] == 1, kinds
    assert isinstance(slides_of[0], Title) and slides_of[0].story and slides_of[0].afterwards
    assert isinstance(slides_of[-1], TakeHome)
    for slide in slides_of:
        if isinstance(slide, Picture):
            assert slide.sentence.endswith(".") and len(slide.sentence.split()) <= 25, slide.cell
        elif isinstance(slide, Asked):
            assert slide.question.because and slide.about, slide.question
        elif isinstance(slide, Lines):
            assert slide.costs[0].text and slide.costs[0].milliseconds > 0.1


def test_the_lines_that_wait_are_those_of_the_recording():
    (lines,) = (slide for slide in deck(cells_of(chapter_of("01"))) if isinstance(slide, Lines))
    (cost,) = lines.costs
    assert cost.times == 768 and "torch.tensor(spans" in cost.text


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_slides_need_nothing_from_elsewhere(chapter):
    page = slides(chapter)
    assert page.count("<section>") == len(deck(cells_of(chapter)))
    parser = Loads()
    parser.feed(page)
    assert parser.loaded == []


def chapter_of(number: str) -> Path:
    return next(path for path in CHAPTERS if path.name.startswith(number))


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


def test_texts_of_a_chapter_are_shown_as_text(tmp_path):
    hostile = "<script>alert(1)</script>"
    cells = [
        markdown(f"# 07 · Title {hostile}\n\n{hostile}"),
        code("q = predict('x')\nq", printed(hostile), widget(f"Predict: {hostile}")),
        code("q.compare(1)", widget(f"{hostile}\n{hostile}")),
        markdown(f"## To take home\n\n- {hostile}"),
    ]
    (tmp_path / "07.ipynb").write_text(json.dumps({"cells": cells}))
    page = slides(tmp_path / "07.ipynb")
    assert page.count("<script>") == 1  # the slides' own
    assert page.count("&lt;script&gt;") >= 6


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_slides_picture_is_drawn_in_both_themes(tmp_path, theme):
    from ..browser.chromium import chromium

    chapter = chapter_of("03")
    path = tmp_path / "slides.html"
    path.write_text(slides(chapter))
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 768}, color_scheme=theme)
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        drawn = 0
        for _ in deck(cells_of(chapter)):
            if page.locator("section.now .live").count():
                page.wait_for_selector("section.now .live[data-ready]")
                drawn += page.locator("section.now .stage :is(canvas, img)").first.is_visible()
                for slider in page.locator("section.now .stage input[type=range]").all():
                    slider.fill(slider.get_attribute("max"))
                    slider.blur()
            for _ in page.locator("section.now .step").all():
                assert not page.locator("section.now .answer").is_visible()
                page.keyboard.press("ArrowRight")
                assert page.locator("section.now .answer").is_visible()
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != WHITE
            assert dark == (theme == "dark")
            page.keyboard.press("ArrowRight")
        assert drawn == 5 and errors == []


WHITE = "rgb(255, 255, 255)"


@pytest.mark.browser
def test_the_certificate_prints_none_of_its_instructions():
    from ..browser.chromium import chromium

    path = ROOT / "workshop/kit/papers/certificate.html"
    with chromium() as browser:
        page = browser.new_page()
        page.goto(path.as_uri())
        assert "click into the lines" in page.inner_text("body")
        page.emulate_media(media="print")
        assert "debubble progress" not in page.inner_text("body")
        assert "has worked through chapters" in page.inner_text("body")


def test_a_room_whose_ports_are_taken_or_closed_is_said(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setenv("PORT", str(number))
        monkeypatch.setattr(room, "PORTS", 1)
        assert f"no port from {number} on answers at 127.0.0.1" in room.port()
    assert room.port() == ""
    silent = lambda *_, **about: (_ for _ in ()).throw(TimeoutError("timed out"))
    monkeypatch.setattr(room.socket, "create_connection", silent)
    assert "timed out" in room.port() and "firewall" in room.port()


def test_a_check_of_the_room_says_what_to_mend(monkeypatch, capsys):
    checks = {"a thing that is": lambda: "", "a thing that is not": lambda: "do this"}
    monkeypatch.setattr(room, "CHECKS", checks)
    assert room.main() == 1
    said = capsys.readouterr().out
    assert "ok  a thing that is" in said and "NO  a thing that is not" in said
    assert "    do this\n" in said and "1 of 2 checks failed: fix them first." in said


def test_the_rooms_kata_is_one():
    assert (ROOT / room.KATA).exists()


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


def test_the_plans_name_slides():
    named = sum(plan.read_text().count("from the slides") for plan in PLANS)
    assert named >= 2 and "slide 1 of chapter 00" in (PLANS[0].parent / "half-day.md").read_text()
