"""The glossary's words, and where the chapters use and explain them."""

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
"""Of a word that stands in bold in another form than the glossary's."""
LAST_LETTERS = "(?:s|es|d|ed|ing)?"


@dataclass(frozen=True)
class Term:
    word: str
    meaning: str
    chapter: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """The word where it is used, in whichever form."""
        forms = "|".join(re.escape(form) for form in (self.word, *OTHER_FORMS.get(self.word, ())))
        flags = 0 if self.word[:1].isupper() else re.IGNORECASE
        return re.compile(rf"(?<![\w-])(?:{forms}){LAST_LETTERS}(?![\w-])", flags)


def terms() -> list[Term]:
    return [Term(*found) for found in ROW.findall(GLOSSARY.read_text(encoding="utf-8"))]


def prose(cell: Cell) -> str:
    """A markdown cell without its headings, its code, and the addresses of its links."""
    if cell.kind != "markdown":
        return ""
    text = re.sub(r"^```.*?^```", "", cell.source, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def too_early(
    chapters: Sequence[tuple[str, Sequence[Cell]]], words: Sequence[Term]
) -> Iterator[str]:
    """A sentence for each word that is used before it stands in bold, or never does, or does so in
    another chapter than the glossary says. `chapters`: (number, cells), in the order of reading."""
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
    """The chapter's number, the cell, and whether it is in bold there."""
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
