"""Finds where the chapters use and explain the glossary's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .notebooks import ROOT, Cell

GLOSSARY = ROOT / "docs/glossary.md"
ROW = re.compile(r"^\| (?!word |---)(.+?) \| (.+?) \| (\d\d) \|$", re.MULTILINE)
OTHER_FORMS = {
    "applying": ("applies",),
    "planning": ("plans",),
    "replay": ("replayed", "replays"),
    "capture": ("captured",),
    "penalty": ("penalties",),
}
"""Inflected forms of glossary words that LAST_LETTERS does not cover."""
LAST_LETTERS = "(?:s|es|d|ed|ing)?"


@dataclass(frozen=True)
class Term:
    word: str
    meaning: str
    chapter: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """Returns a pattern that finds the word in any of its forms."""
        forms = "|".join(re.escape(form) for form in (self.word, *OTHER_FORMS.get(self.word, ())))
        flags = 0 if self.word[:1].isupper() else re.IGNORECASE
        return re.compile(rf"(?<![\w-])(?:{forms}){LAST_LETTERS}(?![\w-])", flags)


def terms() -> list[Term]:
    return [Term(*found) for found in ROW.findall(GLOSSARY.read_text(encoding="utf-8"))]


def prose(cell: Cell) -> str:
    """Returns a markdown cell without its headings, code, and link addresses; "" for other
    cells."""
    if cell.kind != "markdown":
        return ""
    text = re.sub(r"^```.*?^```", "", cell.source, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def too_early(
    chapters: Sequence[tuple[str, Sequence[Cell]]], words: Sequence[Term]
) -> Iterator[str]:
    """Yields a sentence for each word that no chapter uses, that is used before a chapter explains
    it in bold, or that is explained in a different chapter than the glossary says. `chapters` is
    (number, cells), in the order of reading."""
    for term in words:
        place = first_use(chapters, term)
        if place is None:
            yield f"{term.word}: no chapter uses it"
            continue
        number, cell, is_bold = place
        if not is_bold:
            yield f"{term.word}: used in {number}, {cell.id}, before it is explained"
        elif number != term.chapter:
            yield f"{term.word}: explained in {number}, and the glossary says {term.chapter}"


def first_use(
    chapters: Sequence[tuple[str, Sequence[Cell]]], term: Term
) -> tuple[str, Cell, bool] | None:
    """Returns where the chapters first use the word: the chapter's number, the cell, and True if
    the word is in bold there. None if no chapter uses it."""
    for number, cells in chapters:
        for cell in cells:
            text = prose(cell)
            found = term.pattern.search(text)
            if found:
                bold = any(
                    span.start() < found.start() < span.end()
                    for span in re.finditer(r"\*\*[^*]+\*\*", text)
                )
                return number, cell, bold
    return None
