"""A chapter as slides: one file that needs no network, with the arrow keys to go on.

A heading begins a slide, and so does a cell of code with its output: the text beside it is for the
speaker. Pictures are those stored in the notebook; live views are shown in JupyterLab.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import mistune

PAGE = Path(__file__).with_name("slides.html")
LONGEST_OUTPUT = 24
"""The most lines of an output; more do not fit on a slide."""
LONGEST_CODE = 26


def slides(chapter: Path) -> str:
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    title = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
    made = "\n".join(f"<section>{slide}</section>" for slide in _slides(cells))
    page = PAGE.read_text(encoding="utf-8")
    return page.replace("TITLE", html.escape(title)).replace("SLIDES", made)


def _slides(cells: list[dict]) -> Iterator[str]:
    """Yields the HTML of each slide. Text goes onto the slide of the code below it, until a heading
    begins another slide."""
    words: list[str] = []
    for cell in cells:
        source = "".join(cell["source"]).strip()
        if not source:
            continue
        if cell["cell_type"] == "markdown":
            if source.startswith("#") and words:
                yield "".join(words)
                words = []
            words.append(str(_markdown(source)))
        else:
            yield "".join([*words, _code(source), *_outputs(cell)])
            words = []
    if words:
        yield "".join(words)


def _markdown(source: str) -> str:
    """Returns markdown as HTML. Tags in a cell are shown as text."""
    return str(mistune.html(source)) if "<" not in source else str(_ESCAPING(source))


_ESCAPING = mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])


def _code(source: str) -> str:
    lines = source.splitlines()
    cut = [*lines[:LONGEST_CODE], "…"] if len(lines) > LONGEST_CODE else lines
    return f"<pre><code>{html.escape(chr(10).join(cut))}</code></pre>"


def _outputs(cell: dict) -> Iterator[str]:
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data:
            words = re.sub(r"\s+", " ", "".join(data.get("text/plain", "a picture")))[:300]
            picture = "".join(data["image/png"]).replace("\n", "")
            yield f'<img alt="{html.escape(words)}" src="data:image/png;base64,{picture}">'
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            lines = text.rstrip().splitlines()
            if lines:
                cut = [*lines[:LONGEST_OUTPUT], "…"] if len(lines) > LONGEST_OUTPUT else lines
                yield f"<pre class=out>{html.escape(chr(10).join(cut))}</pre>"
