"""The search index: the words of each section of each page, as a script that a search loads."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

SKIPPED = {"script", "style", "header", "footer", "nav", "figure", "form", "button", "head"}
HEADINGS = {"h1", "h2", "h3"}


class Sections(HTMLParser):
    """The sections of a page, each [id, heading, text], in `found`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [["", "", ""]]
        self._skipping = 0
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in SKIPPED:
            self._skipping += 1
        elif tag in HEADINGS and given.get("id"):
            self.found.append([given["id"] or "", "", ""])
            self._in_heading = True
        elif given.get("class") == "anchor":
            self._in_heading = False

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= tag in SKIPPED
        self._in_heading = self._in_heading and tag not in HEADINGS

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self.found[-1][1 if self._in_heading else 2] += f"{data} "


def sections_of(html: str) -> list[list[str]]:
    """Returns the sections of a page that have words: id, heading and text, on one line each."""
    parser = Sections()
    parser.feed(html)
    tidy = [[" ".join(words.split()) for words in section] for section in parser.found]
    return [section for section in tidy if section[1] or len(section[2]) > 1]


def write_index(pages: list[tuple[str, str, str]], folder: Path) -> None:
    """Writes `static/search.js` for pages, each (path, title, HTML)."""
    index = [[path, title, sections_of(html)] for path, title, html in pages]
    data = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (folder / "static/search.js").write_text(f"window.debubbleSearch({data});\n")
