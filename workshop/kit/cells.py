"""A chapter's cells as the kit reads them: their paragraphs and their stored texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from debubble.commands.board.questions import Cell

SLIDE = "slide"
"""The metadata of a cell in which a chapter's author writes the sentence above a picture, all that
stands above a question, or the story below the title. `false` leaves the slide out."""
MORE = "more"
"""The tag of cells in a folded part."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*(])")


def source_of(cell: Cell) -> str:
    return "".join(cell["source"]).strip()


def is_folded(cell: Cell) -> bool:
    return MORE in cell["metadata"].get("tags", ())


def paragraphs(cell: Cell) -> list[str]:
    """Returns the paragraphs of a markdown cell without its headings, each on one line. Tables,
    lists, code and comments are no paragraphs; a cell of code has none."""
    if cell["cell_type"] != "markdown":
        return []
    text = re.sub(r"^```.*?^```$", "", source_of(cell), flags=re.MULTILINE | re.DOTALL)
    parts = (part.strip() for part in text.split("\n\n"))
    return [
        " ".join(part.split())
        for part in parts
        if (part and part[0] not in "#|-*<!") or part[:2] == "**"
    ]


def before(cells: Sequence[Cell], at: int) -> Iterator[Cell]:
    """Yields the cells above the one at index `at`, the nearest first, down to and including the
    nearest markdown."""
    for cell in reversed(cells[:at]):
        yield cell
        if cell["cell_type"] == "markdown":
            return


def printed(cell: Cell) -> str:
    """Returns the text that a cell has printed."""
    texts = ("".join(one.get("text", "")) for one in cell.get("outputs", ()))
    return "".join(texts).rstrip()


def first_sentence(text: str) -> str:
    return SENTENCE.split(text)[0]


def last_sentence(text: str) -> str:
    return SENTENCE.split(text)[-1]
