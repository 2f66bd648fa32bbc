"""A chapter as slides: one file that needs no network, with the arrow keys to go on.

Pictures are the live views of the chapter, drawn in the browser's light or dark theme; on paper
they are the stored pictures.
"""

from __future__ import annotations

import html
import re
from functools import singledispatch
from pathlib import Path

import mistune

from debubble.commands.board.questions import cells_of
from debubble.views.javascript import one_module
from scripts.site.files import live_parts

from .deck import Lines, Slide, TakeHome, Title, deck
from .pictures import Picture
from .questions import Asked

LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
HERE = Path(__file__).parent
_ESCAPING = mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])


def slides(chapter: Path) -> str:
    """Returns the page with the slides of a chapter that was stored with its outputs."""
    chosen = deck(cells_of(chapter))
    made = "\n".join(f"<section>{as_html(slide)}</section>" for slide in chosen)
    title = next(slide.title for slide in chosen if isinstance(slide, Title))
    page = (HERE / "slides.html").read_text(encoding="utf-8")
    for mark, text in (("TITLE", html.escape(title)), ("SCRIPT", script()), ("SLIDES", made)):
        page = page.replace(f"<!-- {mark} -->", text)
    return page


def script() -> str:
    """Returns the slides' script, with the browser's parts of the live views in it."""
    return f"{live_parts()}\n{one_module(HERE / 'slides.js')}"


@singledispatch
def as_html(slide: Slide) -> str:
    raise TypeError(f"{type(slide).__name__} is no slide")


@as_html.register
def _(slide: Title) -> str:
    story = "".join(f"<p>{_inline(text)}</p>" for text in slide.story)
    able = f'<p class="able">Afterwards you can {_inline(slide.afterwards)}.</p>'
    return f"<h1>{html.escape(slide.title)}</h1>{story}{able if slide.afterwards else ''}"


@as_html.register
def _(slide: Asked) -> str:
    question = slide.question
    choices = "".join(f"<li><code>{html.escape(one)}</code></li>" for one in question.choices)
    return (
        f"<h2>{html.escape(slide.section)}</h2>{_blocks(slide.about)}{_code(slide.shown)}"
        f'<p class="question">{_inline(question.text)}</p>'
        f"{f'<ul>{choices}</ul>' if choices else ''}"
        f'<div class="step"><p class="answer">{_inline(slide.answer)}</p>'
        f"<p>{_inline(slide.because)}</p></div>"
    )


@as_html.register
def _(slide: Picture) -> str:
    at = "" if slide.at is None else f' data-at="{slide.at}"'
    return (
        f"<h2>{html.escape(slide.section)}</h2>"
        f'<p class="sentence">{_inline(slide.sentence)}</p>'
        f'<figure class="live" data-view="{html.escape(slide.view["view"])}"{at}>'
        f'<img class="still" alt="{html.escape(slide.words)}" '
        f'src="data:image/png;base64,{slide.png}">'
        f'<script type="text/plain">{slide.view["data"]}</script></figure>'
    )


@as_html.register
def _(slide: Lines) -> str:
    rows = "".join(
        f"<tr><td>{cost.times} ×</td><td><pre><code>{html.escape(cost.text)}</code></pre>"
        f"{html.escape(cost.place)}</td><td>{cost.milliseconds:.2f} ms</td></tr>"
        for cost in slide.costs
    )
    which = "The line that holds" if len(slide.costs) == 1 else "The lines that hold"
    head = "<tr><th>how often</th><th>line</th><th>in all</th></tr>"
    return (
        f"<h2>{html.escape(slide.section)}</h2>"
        f'<p class="sentence">{which} the host longest ({html.escape(slide.label)}):</p>'
        f'<table class="lines">{head}{rows}</table>'
    )


@as_html.register
def _(slide: TakeHome) -> str:
    points = "".join(f"<li>{_inline(point)}</li>" for point in slide.points)
    return f"<h2>To take home</h2><ul>{points}</ul>"


def _inline(text: str) -> str:
    """Returns a paragraph's markdown as HTML, without a paragraph around it."""
    return re.sub(r"^<p>|</p>\s*$", "", _blocks(text))


def _blocks(text: str) -> str:
    """Returns markdown as HTML. Tags are shown as text, and links as their words: the pages that
    they lead to are not beside the slides."""
    return str(_ESCAPING(LINK.sub(r"\1", text))).strip()


def _code(text: str) -> str:
    return f"<pre><code>{html.escape(text)}</code></pre>" if text else ""
