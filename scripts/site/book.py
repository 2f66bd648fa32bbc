"""The parts that make a book of pages: ids of headings, sections, and meanings of terms."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from itertools import count
from pathlib import Path
from typing import NamedTuple

HEADING = re.compile(
    r'(?:^|(?<=<div class="cell text">))<h([1-4])>(.*?)</h\1>', re.MULTILINE | re.DOTALL
)
TAG = re.compile(r"<[^>]*>")
BOLD = re.compile(r"<strong>([^<]{2,40})</strong>")
PULL_REQUEST = re.compile(r"((?:pull request|PR|vLLM)s?\s)#(\d{4,6})", re.IGNORECASE)
MARKUP = re.compile(r"(<[^>]*>)")
UNLINKED = re.compile(r"<(/?)(?:a|pre|script|style|svg|option)\b")
"""A tag of an element in whose text no link may lie."""
OF_VLLM = "https://github.com/vllm-project/vllm/pull"
SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
LINK_TAGS = re.compile(r'\s*<a class="anchor".*?</a>|</?a\b[^>]*>')
VIEW = re.compile(r'<figure class="output live"')
SECTIONS = "<!-- sections -->"
DEFINED = re.compile(r"(<tr>\s*)<td>([^<]+)</td>")


class Section(NamedTuple):
    """A heading of a page: its level, id and words."""

    level: int
    id: str
    words: str


def with_ids(html: str) -> tuple[str, list[Section]]:
    """Returns the page with an id and a link in each heading, and its sections."""
    sections: list[Section] = []
    used: Counter[str] = Counter()

    def mark(match: re.Match[str]) -> str:
        level, words = match[1], match[2]
        name = slug(TAG.sub("", words))
        used[name] += 1
        name = f"{name}-{used[name] - 1}" if used[name] > 1 else name
        sections.append(Section(int(level), name, TAG.sub("", words)))
        link = f'<a class="anchor" href="#{name}" title="Link to this section">#</a>'
        return f'<h{level} id="{name}">{words} {link}</h{level}>'

    return HEADING.sub(mark, html), sections


def with_view_ids(html: str) -> str:
    """Returns the page with an id in each live view: `view-1`, `view-2` and so on."""
    numbers = count(1)
    return VIEW.sub(lambda match: f'{match[0]} id="view-{next(numbers)}"', html)


def slug(words: str) -> str:
    """Returns a heading's id as GitHub makes it, so that links into our documents lead there."""
    kept = re.sub(r"&\w+;|[^\w\s-]", "", words.strip().lower())
    return re.sub(r"\s", "-", kept) or "section"


def with_plain_summaries(html: str) -> str:
    """Returns the page without links in the lines that open folded parts: a click there opens."""
    return SUMMARY.sub(lambda match: LINK_TAGS.sub("", match[0]), html)


def listed(sections: list[Section]) -> str:
    """Returns the list of a page's sections for the side bar."""
    own = [section for section in sections if section.level == 2]
    if not own:
        return ""
    items = "".join(f'<li><a href="#{each.id}">{each.words}</a></li>' for each in own)
    return f'<ol class="sections">{items}</ol>'


def terms(root: Path) -> dict[str, str]:
    """Returns the glossary's words with their meaning."""
    path = root / "docs/glossary.md"
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| \d", path.read_text(), re.MULTILINE)
    return {word.strip(): meaning.strip() for word, meaning in rows}


def with_terms(html: str, known: dict[str, str], glossary: str) -> str:
    """Returns the page with each bold word of the glossary linked to it, and its meaning."""
    by_name = {word.lower(): word for word in known}

    def link(match: re.Match[str]) -> str:
        words = match[1].lower()
        found = by_name.get(words) or by_name.get(words.removesuffix("s"))
        if found is None:
            return match[0]
        meaning = escape(TAG.sub("", known[found]).replace("`", ""))
        return (
            f'<a class="term" href="{glossary}#{term_id(found)}" data-means="{meaning}">'
            f"{match[0]}</a>"
        )

    return BOLD.sub(link, html)


def term_id(word: str) -> str:
    return f"term-{slug(word)}"


def with_term_ids(html: str) -> str:
    """Returns the glossary with an id in each row."""
    return DEFINED.sub(lambda m: f'{m[1]}<td id="{term_id(m[2])}">{m[2]}</td>', html)


def with_pull_requests(html: str) -> str:
    """Returns the page with links to the pull requests of vLLM that its text names."""
    head, main, text = html.partition("<main")
    inside = 0
    parts = []
    for part in MARKUP.split(text):
        if opens := UNLINKED.match(part):
            inside += -1 if opens[1] else 1
        elif not inside and not part.startswith("<"):
            part = PULL_REQUEST.sub(rf'\1<a href="{OF_VLLM}/\2">#\2</a>', part)
        parts.append(part)
    return head + main + "".join(parts)
