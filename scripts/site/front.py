"""The first page: the race, what was measured, and where to begin."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from .page import Page

HEADLINES = re.compile(r"<!-- headlines: begin -->\n(.*?)<!-- headlines: end -->", re.DOTALL)
LINKED = re.compile(r"\[([^]]*)\]\([^)]*\)")

TITLE = "Which line makes the GPU wait?"
DESCRIPTION = (
    "Race two small programs in your browser and see where the GPU idles. An interactive workbook "
    "about keeping a GPU busy in LLM inference, which needs no GPU."
)
LEAD = """debubble is an interactive workbook about keeping a GPU busy in LLM inference. A
**bubble** is time in which a GPU could work but waits: for a copy, for the host, for a launch.
Both programs below do the same work, and one of them is slower. Find the line that makes its
bubbles, change it, and send the address to a colleague. The race runs in your browser, in the
<span class="modelled">modelled</span> time of an NVIDIA H200."""
RACE = """<div class="race" data-race="00" data-address data-chapters="{chapters}">
<p class="js-off">The race needs JavaScript.</p></div>"""
BEGIN = """<div class="begin">

[Start with chapter 00 (40 minutes)]({chapter})
[Find your waits (2 minutes, once PyTorch is installed)]({waits})
[Open your trace](docs/open_your_trace.md)

</div>"""
ABOUT = """You read a timeline, predict it, fix the code, watch the bubble go, and a test confirms
it. The bubbles were first fixed in [vLLM](https://github.com/vllm-project/vllm). You need no GPU:
read the chapters here, or run them as notebooks: `make lab` opens them in
[a checkout of the repository](.)."""


def page(root: Path, chapters: list[Page]) -> Page:
    """Returns the index page. `chapters` are linked in their order."""
    first = chapters[0].path if chapters else "#"
    parts = [
        f"# {TITLE}",
        LEAD,
        RACE.format(chapters=escape(json.dumps(by_number(chapters)))),
        BEGIN.format(chapter=first, waits="docs/find_your_waits.md"),
        "## Five fixes, measured",
        f'<ul class="numbers">{"".join(map(card, headlines(root)))}</ul>',
        "[All results](docs/results.md) has the figures of each GPU, with small models too.",
        "## The workbook",
        ABOUT,
        "\n".join(f"- [{chapter.title}]({chapter.path})" for chapter in chapters),
        "[All katas](katas/index.html) are small functions that work but stall. "
        "[Your own script](docs/find_your_waits.md) can be searched for waits without a GPU.",
    ]
    about = {"race": True, "description": DESCRIPTION}
    return Page.of_markdown("index.html", TITLE, "\n\n".join(parts), "README.md", about)


def by_number(chapters: list[Page]) -> dict[str, str]:
    """Returns the path of each chapter's page by its number, such as "00"."""
    return {chapter.path[:2]: chapter.path for chapter in chapters}


def headlines(root: Path) -> list[list[str]]:
    """Returns the rows of README.md's measured figures: the GPU, then the cells of the row."""
    found = HEADLINES.search((root / "README.md").read_text())
    if found is None:
        return []
    head, _, *rows = found[1].strip().splitlines()
    gpu = cells(head)[0].removeprefix("on one ")
    return [[gpu, *cells(row)] for row in rows]


def cells(row: str) -> list[str]:
    return [LINKED.sub(r"\1", cell.strip()) for cell in row.strip().strip("|").split(" | ")]


def card(row: list[str]) -> str:
    """Returns a list item with the figures of a large model, before and after."""
    gpu, what, _, _, large, day = row
    model, _, figures = large.partition(": ")
    before, _, after = (figure.strip() for figure in figures.partition("→"))
    fix, _, step = what.partition(": ")
    about = ", ".join(filter(None, [step, model]))
    return (
        f"<li><b>{escape(change(short(before), short(after)))}</b> "
        f"<span>{escape(fix)}</span> "
        f"<small>{escape(about)}; one {escape(gpu)}, <time>{escape(day)}</time></small></li>"
    )


def change(before: str, after: str) -> str:
    """Returns both figures with an arrow between them, and their unit once if they share it."""
    number, _, unit = before.partition(" ")
    return f"{number if after.endswith(f' {unit}') else before} → {after}"


def short(figures: str) -> str:
    """Returns the first of several figures."""
    return figures.partition(",")[0]
