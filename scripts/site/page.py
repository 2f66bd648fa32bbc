"""A page of the site: a notebook, and its place."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from traitlets.config import Config

HERE = Path(__file__).parent
# A live widget's own entry is for a kernel; the template shows the data embedded beside it.
SHOWN = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/plain"]
LINK = re.compile(r'<a href="(?!https?:|#|mailto:)([^"#]*)(#[^"]*)?">(.*?)</a>', re.DOTALL)

# Markdown has no tables without a heading, and an empty one is read out as a heading.
EMPTY_HEADING = re.compile(r"<th([^>]*)></th>")


@dataclass
class Page:
    """A page of the site. path: from the site's folder, with slashes. source: the file that it is
    made from, from the repository's folder; links in the page are relative to it."""

    path: str
    title: str
    notebook: nbformat.NotebookNode
    source: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    """Further values for the template."""

    @classmethod
    def of_markdown(
        cls,
        path: str,
        title: str,
        text: str,
        source: str = "",
        about: dict[str, Any] | None = None,
    ) -> Page:
        cell = nbformat.v4.new_markdown_cell(text)
        notebook = nbformat.v4.new_notebook(cells=[cell])
        return cls(path, title, notebook, source, about or {})

    @property
    def to_root(self) -> str:
        return "../" * self.path.count("/")


def write_all(pages: Sequence[Page], folder: Path) -> None:
    """Writes the HTML of all pages into `folder`. Each gets the list of pages, for links to its
    neighbours."""
    exporter = HTMLExporter(
        template_name="template",
        extra_template_basedirs=[str(HERE)],
        exclude_anchor_links=True,
        config=Config({"NbConvertBase": {"display_data_priority": SHOWN}}),
    )
    find = finder(pages)
    for page in pages:
        html, _ = exporter.from_notebook_node(page.notebook, {"page": page, "pages": pages})
        path = folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(relinked(html, page, find))


def finder(pages: Sequence[Page]) -> Callable[[str], Page | None]:
    """Returns a function that finds a page by its path from the site's or the repository's
    folder."""
    known = {page.path: page for page in pages}
    known |= {page.source: page for page in pages if page.source}
    return known.get


def relinked(html: str, page: Page, find: Callable[[str], Page | None]) -> str:
    """Returns the page's HTML with links to files of the repository led to their pages, or replaced
    by their words."""

    def link(match: re.Match[str]) -> str:
        target, anchor, words = match[1], match[2] or "", match[3]
        for base in (page.path, page.source):
            place = os.path.normpath(os.path.join(os.path.dirname(base), target))
            if (found := find(place)) is not None:
                return f'<a href="{page.to_root}{found.path}{anchor}">{words}</a>'
        return f'<span title="{target}: in the repository">{words}</span>'

    return EMPTY_HEADING.sub(r"<td\1></td>", LINK.sub(link, html))
