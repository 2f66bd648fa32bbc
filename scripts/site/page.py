"""A page of the site: a notebook, and its place."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from traitlets.config import Config

from . import book
from .search import write_index

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# A live widget's own entry is for a kernel; the template shows the data embedded beside it.
SHOWN = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/plain"]
PICTURE = re.compile(r'(<img [^>]*?src=")(?:\.\./)*assets/pictures/([\w-]+\.png")')
LINK = re.compile(r'<a href="(?!https?:|#|mailto:)([^"#]*)(#[^"]*)?">(.*?)</a>', re.DOTALL)

# Markdown has no tables without a heading, and an empty one is read out as a heading.
EMPTY_HEADING = re.compile(r"<th([^>]*)></th>")

PICTURES = {path.stem for path in (ROOT / "assets/pictures").glob("*.png")}


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
    def description(self) -> str:
        """The page in at most 160 letters: what `about` says, or else its first paragraph."""
        return str(self.about.get("description") or first_words(self.notebook))

    @property
    def short_title(self) -> str:
        return self.title.removeprefix("Reference: ")

    @property
    def picture(self) -> str:
        """The path of the picture that stands for the page where its address is sent."""
        system = self.path.partition("_")[2].removesuffix(".html")
        return f"static/pictures/{system if system in PICTURES else 'pinned_h2d'}.png"

    @property
    def to_root(self) -> str:
        return "../" * self.path.count("/")


def first_words(notebook: nbformat.NotebookNode, most: int = 160) -> str:
    """Returns the first paragraph below the title, without markup, cut after a whole word."""
    text = "".join(notebook.cells[0].source) if notebook.cells else ""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    words = next((part for part in paragraphs if part and part[0].isalnum()), "")
    plain = " ".join(re.sub(r"[*`]|\[([^]]*)\]\([^)]*\)|<[^>]*>", r"\1", words).split())
    return plain if len(plain) <= most else f"{plain[: most - 1].rpartition(' ')[0]}…"


@dataclass(frozen=True)
class Site:
    """The addresses of a site and of its repository: "" if one is not known."""

    repository: str = ""
    """The address of the repository, without a slash at its end."""
    address: str = ""
    """The address of the site's folder, with a slash at its end."""
    archive: str = ""
    """The path of the repository's files in one archive, from the site's folder."""
    archive_bytes: int = 0

    @property
    def binder(self) -> str:
        """The address at which Binder runs a repository of GitHub."""
        _, of_github, name = self.repository.partition("https://github.com/")
        return f"https://mybinder.org/v2/gh/{name}/main" if of_github else ""

    @property
    def colab(self) -> str:
        """The address at which Colab opens our notebook that prepares it."""
        _, of_github, name = self.repository.partition("https://github.com/")
        place = f"https://colab.research.google.com/github/{name}/blob/main"
        return f"{place}/workshop/container/colab.ipynb" if of_github else ""


def write_all(pages: Sequence[Page], folder: Path, site: Site | None = None) -> None:
    """Writes the HTML of all pages into `folder`, and their search index. Each page gets the list
    of pages, for links to its neighbours."""
    site = site or Site()
    if site.archive:
        site = replace(site, archive_bytes=(folder / site.archive).stat().st_size)
    exporter = HTMLExporter(
        template_name="template",
        extra_template_basedirs=[str(HERE)],
        exclude_anchor_links=True,
        config=Config({"NbConvertBase": {"display_data_priority": SHOWN}}),
    )
    find, known = finder(pages), book.terms(ROOT)
    written = []
    for number, page in enumerate(pages):
        around = {"before": pages[number - 1] if number else None, "after": after(pages, number)}
        about = {"page": page, "groups": groups(pages), "site": site, **around}
        html, _ = exporter.from_notebook_node(page.notebook, about)
        html = finished(html, page, find, known, site)
        path = folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html)
        written.append((page.path, page.title, html))
    write_index(written, folder)


def after(pages: Sequence[Page], number: int) -> Page | None:
    return pages[number + 1] if number + 1 < len(pages) else None


GROUPS = (
    ("Chapters", re.compile(r"\d\d_")),
    ("Guides", re.compile(r"docs/|glossary")),
    ("Katas", re.compile(r"katas/")),
    ("Reference", re.compile(r"reference/")),
)


def groups(pages: Sequence[Page]) -> list[tuple[str, list[Page]]]:
    """Returns the pages of each part of the side bar, with its name."""
    return [(name, [page for page in pages if of.match(page.path)]) for name, of in GROUPS]


def finished(
    html: str,
    page: Page,
    find: Callable[[str], Page | None],
    known: dict[str, str],
    site: Site,
) -> str:
    """Returns a page's HTML with ids, sections, terms and links."""
    html, sections = book.with_ids(html)
    html = book.with_view_ids(html.replace(book.SECTIONS, book.listed(sections), 1))
    if page.path == "glossary.html":
        html = book.with_term_ids(html)
    elif find("glossary.html") is not None:
        html = book.with_terms(html, known, f"{page.to_root}glossary.html")
    html = PICTURE.sub(rf"\1{page.to_root}static/pictures/\2", html)
    html = relinked(book.with_pull_requests(html), page, find, site)
    return book.with_plain_summaries(html)


def finder(pages: Sequence[Page]) -> Callable[[str], Page | None]:
    """Returns a function that finds a page by its path from the site's or the repository's
    folder."""
    known = {page.path: page for page in pages}
    known |= {page.source: page for page in pages if page.source}
    return known.get


def relinked(html: str, page: Page, find: Callable[[str], Page | None], site: Site) -> str:
    """Returns the page's HTML with links to files of the repository led to their pages, or to the
    repository, or replaced by their words if no repository is known."""

    def link(match: re.Match[str]) -> str:
        target, anchor, words = match[1], match[2] or "", match[3]
        if not target:
            return match[0]
        for base in (page.path, page.source):
            place = os.path.normpath(os.path.join(os.path.dirname(base), target))
            if (found := find(place)) is not None:
                return f'<a href="{page.to_root}{found.path}{anchor}">{words}</a>'
        place = os.path.normpath(os.path.join(os.path.dirname(page.source), target))
        if place == ".":
            return checkout(words, page, site)
        if site.repository and not place.startswith(".."):
            return f'<a href="{site.repository}/blob/main/{place}{anchor}">{words}</a>'
        return f'<span title="{target}: in the repository">{words}</span>'

    return EMPTY_HEADING.sub(r"<td\1></td>", LINK.sub(link, html))


def checkout(words: str, page: Page, site: Site) -> str:
    """Returns a link to the repository, or to the archive of its files if none is known."""
    if site.repository or not site.archive:
        return f'<a href="{site.repository}">{words}</a>' if site.repository else words
    link = f'<a href="{page.to_root}{site.archive}">download it as an archive</a>'
    unpack = f"unzip {os.path.basename(site.archive)}; cd debubble"
    return f"{words} ({link} of {site.archive_bytes / 1e6:.0f} MB: <code>{unpack}</code>)"
