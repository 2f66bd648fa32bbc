"""A chapter's slides: few, each with all that its words speak of, and no network."""

import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from debubble.commands.board.questions import cells_of

pytest.importorskip("mistune", reason="slides are made where the chapters' packages are")

from workshop.kit.cells import printed as printed_by
from workshop.kit.cells import source_of
from workshop.kit.deck import Lines, TakeHome, Title, deck
from workshop.kit.pictures import Picture
from workshop.kit.questions import Asked, asked_in
from workshop.kit.slides import as_html, slides

from .chapters import CHAPTERS, chapter_of, code, markdown, printed, widget

pytestmark = pytest.mark.sim


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


POINTING = re.compile(
    r"\b(next cells?|below|above|(next|this) recording|in the picture|sections? \d+|here (is|are)|"
    r"draw|drag)\b|^The same\b",
    re.IGNORECASE,
)
"""Words that point to something that stands elsewhere in the chapter."""
NAME = re.compile(r"`\.?([A-Za-z_]\w*)")
PYTORCHS = {"non_blocking"}
"""Names that a slide may use without showing code that has them."""


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_slide_shows_what_its_words_speak_of(chapter):
    for number, slide in enumerate(deck(cells_of(chapter)), start=1):
        if isinstance(slide, Picture):
            assert not POINTING.search(slide.sentence), (number, slide.sentence)
            named = set(re.findall(r"\b[ABH]\d00\b", f"{slide.section} {slide.sentence}"))
            assert all(gpu in slide.label for gpu in named), (number, slide.label)
        elif isinstance(slide, Asked):
            question = slide.question
            shown = " ".join([slide.about, slide.shown, *question.choices])
            words = f"{shown} {question.text} {question.because}"
            assert not POINTING.search(words), (number, POINTING.search(words))
            assert slide.shown or not slide.about.endswith(":"), (number, slide.about)
            said = {*NAME.findall(question.text), *NAME.findall(question.because)} - PYTORCHS
            assert said <= set(re.findall(r"\w+", shown)), (number, said)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_code_that_an_author_wrote_for_a_slide_is_the_chapters(chapter):
    cells = cells_of(chapter)
    lines = {
        line.strip()
        for cell in cells
        for line in f"{source_of(cell)}\n{printed_by(cell)}".splitlines()
    }
    for slide in deck(cells):
        if isinstance(slide, Asked):
            code = "\n".join(re.findall(r"^```\w+\n(.*?)^```$", slide.about, re.M | re.S))
            assert {line.strip() for line in code.splitlines()} - {""} <= lines, slide.question


def test_what_an_author_wrote_stands_above_the_question_and_nothing_else():
    asks = code("def f():\n    pass\nq = predict('x')\nq", printed("1"), widget("Predict: x"))
    asks["metadata"]["slide"] = "Text.\n\n```python\nf()\n```"
    drawn = widget("Here is what happened:\nFrom 1 to 2. The copy waits.")
    (asked,) = asked_in([markdown("## 1. A wait\n\nRead."), asks, code("q.compare(1)", drawn)])
    assert (asked.about, asked.shown) == (asks["metadata"]["slide"], "")
    assert (asked.answer, asked.because) == ("From 1 to 2.", "The copy waits.")
    assert "<pre><code" in as_html(asked) and "<h2>1. A wait</h2><p>Text.</p>" in as_html(asked)


def test_the_lines_that_wait_are_those_of_the_recording():
    (lines,) = (slide for slide in deck(cells_of(chapter_of("01"))) if isinstance(slide, Lines))
    (cost,) = lines.costs
    assert cost.times == 768 and "torch.tensor(spans" in cost.text
    assert "sim, modelled on NVIDIA H200" in as_html(lines)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_line_is_listed_once(chapter):
    (lines,) = (slide for slide in deck(cells_of(chapter)) if isinstance(slide, Lines))
    assert len({(cost.place, cost.text) for cost in lines.costs}) == len(lines.costs)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_slides_need_nothing_from_elsewhere(chapter):
    page = slides(chapter)
    assert page.count("<section>") == len(deck(cells_of(chapter)))
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


@pytest.mark.deep(2)
@pytest.mark.browser
@pytest.mark.parametrize(
    "theme, number, width, height", [("light", "03", 1366, 768), ("dark", "04", 1920, 1080)]
)
def test_each_slides_picture_is_drawn_in_both_themes(tmp_path, theme, number, width, height):
    from ..browser.chromium import chromium

    chapter = chapter_of(number)
    path = tmp_path / "slides.html"
    path.write_text(slides(chapter))
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
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
            tall = page.evaluate("document.documentElement.scrollHeight")
            assert tall <= height, page.url
            for _ in page.locator("section.now .step").all():
                assert not page.locator("section.now .answer").is_visible()
                page.keyboard.press("ArrowRight")
                assert page.locator("section.now .answer").is_visible()
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != WHITE
            assert dark == (theme == "dark")
            page.keyboard.press("ArrowRight")
        assert drawn == 5 and errors == []


WHITE = "rgb(255, 255, 255)"
