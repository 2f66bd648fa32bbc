"""Finds answers that a reader could see before committing: in text, outputs, tables and asserts.

A reader reads from the top, and runs each cell. Above the cell that answers a question everything
is seen, including outputs. Below it the rest of the section is in sight, but shows no outputs yet.
A collapsed cell shows none of its code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .notebooks import Cell
from .terms import prose

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEENS = (
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
    "eighteen", "nineteen",
)  # fmt: skip
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL = 10
"""Numbers below this limit give an answer away only together with their unit."""
NOUNS = {
    "waits": ("wait", "waits", "host sync", "host syncs", "host_syncs", "syncs"),
    "host syncs": ("wait", "waits", "host sync", "host syncs", "host_syncs", "syncs"),
    "uploads": ("upload", "uploads", "buffer", "h2d_pinned", "h2d_pageable"),
    "graphs": ("graph", "graphs", "graph launches", "graph_launches"),
    "copies": ("copy", "copies", "h2d_pinned"),
    "pages": ("page", "pages"),
    "things": ("thing", "things"),
    "bytes": ("byte", "bytes"),
    "tokens": ("right",),
    "calls": ("call", "calls"),
    "chunks": ("chunk", "chunks"),
}
"""The words for what a question counts, by its unit. A unit that is missing here has only its own
name."""
LITTLE_WORDS = {"does", "from", "that", "these", "this", "what", "which", "with"}
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)")
DEFINED = re.compile(r"^(\w+) = predict\w*\(", re.MULTILINE)
Sight = Iterator[tuple[Cell, str, str]]
"""The type of what is in sight: (cell, "text", "code" or "output", the text)."""


@dataclass(frozen=True)
class Question:
    name: str
    asked: int
    answered: int
    """The index of the cell that shows the answer. `asked` is the index of the cell with the
    question."""
    answer: str
    """The first line of the answer's output."""
    words: str = ""
    """The question itself."""
    choices: tuple[str, ...] = ()
    """The answers to choose from, if it is a question with choices."""

    @property
    def number(self) -> float | None:
        found = NUMBER.match(self.answer)
        return float(found[0].replace(",", "")) if found else None

    @property
    def nouns(self) -> tuple[str, ...]:
        unit = self.answer.partition(" ")[2]
        units = (unit, f"{unit}s", f"{unit.removesuffix('y')}ies")  # "1 upload" has the singular.
        return next((NOUNS[one] for one in units if one in NOUNS), (unit,) if unit else ())


def questions(cells: Sequence[Cell]) -> Iterator[Question]:
    """Yields the questions. Raises ValueError for a question that no cell answers."""
    for place, cell in enumerate(cells):
        defined = DEFINED.search(cell.source) if cell.kind == "code" else None
        if not defined:
            continue
        name = defined[1]
        asks = re.compile(rf"^{name}\.compare\(", re.MULTILINE)
        later = range(place + 1, len(cells))
        answered = next((n for n in later if asks.search(cells[n].source)), None)
        if answered is None:
            raise ValueError(f"{name}, asked in {cell.id}, is never answered")
        answer = cells[answered].shown.strip().splitlines() or [""]
        asked, *lines = cell.shown.partition("Predict: ")[2].splitlines() or [""]
        choices = tuple(re.findall(r"^  \( \) (.+)$", "\n".join(lines), re.MULTILINE))
        yield Question(name, place, answered, answer[0], asked, choices)


def within_sight(cells: Sequence[Cell], question: Question) -> Sight:
    """Yields what a reader can see in the chapter before committing an answer to this question."""
    for cell in cells[: question.answered]:
        yield from seen(cell)
        yield cell, "output", cell.shown
    for cell in cells[question.answered + 1 :]:
        if re.search(r"^##? ", cell.source, re.MULTILINE) and cell.kind == "markdown":
            head = re.split(r"^##? ", cell.source, maxsplit=1, flags=re.MULTILINE)[0]
            yield cell, "text", head
            return
        yield from seen(cell)


def seen(cell: Cell) -> Sight:
    if cell.kind == "markdown":
        headings = "\n".join(re.findall(r"^#.*$", cell.source, re.MULTILINE))
        yield cell, "text", f"{headings}\n{prose(cell)}"
    elif not cell.is_collapsed:
        yield cell, "code", cell.source


def spoilers(cells: Sequence[Cell]) -> Iterator[tuple[str, str, str]]:
    """Yields (question, id of the cell, the text that gives the answer away). Numbers that differ
    between machines are skipped, since they are elsewhere only by chance."""
    for question in questions(cells):
        value = question.number
        if question.choices:
            for cell, kind, text in within_sight(cells, question):
                # Choices are often code, which `text` leaves out.
                whole = text if text in cell.source else cell.source
                if found := "; ".join(chosen(whole, question) if kind == "text" else ()):
                    yield question.name, cell.id, found
            continue
        if value is None or "nbval-ignore-output" in cells[question.answered].metadata.get(
            "tags", ()
        ):
            continue
        for cell, kind, text in within_sight(cells, question):
            found = "".join(
                asserted(text, value, question) if kind == "code" else said(text, value, question)
            )
            if found:
                yield question.name, cell.id, found


def said(text: str, value: float, question: Question) -> Iterator[str]:
    """Yields the places in `text` that give away the answer `value`: a number of at least SMALL
    anywhere, unless it is printed as a count of something else; a smaller one only beside the unit
    of the question, or in a table column of it."""
    if value >= SMALL:
        yield from in_words(text, value, question)
        for found in NUMBER.finditer(text):
            counts = re.search(r"(\w+)=$", text[: found.start()])
            of_another = question.nouns and counts and counts[1] not in question.nouns
            if float(found[0].replace(",", "")) == value and not of_another:
                yield f"{value:g}"
        return
    names = "|".join(map(re.escape, question.nouns))
    if not names:
        return
    numeral = rf"(?:{value:g}|{WORDS[int(value)]})"
    for pattern in (
        rf"(?<![\w.,]){numeral} (?:\w+ ){{0,2}}(?:{names})\b",
        rf"\b(?:{names})['\"]?\s?[=:]\s?{value:g}\b",
    ):
        for found in re.finditer(pattern, text, re.IGNORECASE):
            yield found[0]
    yield from in_a_table(text, value, names)


def in_words(text: str, value: float, question: Question) -> Iterator[str]:
    """Yields the places in `text` that spell the number `value` in words, beside the question's
    unit."""
    names = "|".join(map(re.escape, question.nouns))
    word = spelled(value)
    if word and names:
        for found in re.finditer(rf"\b{word} (?:\w+ ){{0,2}}(?:{names})\b", text, re.IGNORECASE):
            yield found[0]


def spelled(value: float) -> str:
    """Returns a number from 10 to 99 in words, and "" for any other."""
    if value != int(value) or not SMALL <= value < 100:
        return ""
    if value < 20:
        return TEENS[int(value) - 10]
    tens, ones = divmod(int(value), 10)
    return TENS[tens - 2] + (f"-{WORDS[ones]}" if ones else "")


def chosen(text: str, question: Question) -> Iterator[str]:
    """Yields the sentences that name the right choice and no other one, and have two words of the
    question: they say the answer."""
    for sentence in re.split(r"(?<=[.?!])\s+|\n", text):
        named = [choice for choice in question.choices if choice.lower() in sentence.lower()]
        common = words_of(question.words) & words_of(sentence)
        if named == [question.answer] and len(common) >= 2:
            yield sentence


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", text.lower())) - LITTLE_WORDS


def in_a_table(text: str, value: float, names: str) -> Iterator[str]:
    """Yields a text for each number in a table that equals `value` and stands in a column named by
    the pattern `names`."""
    columns: list[tuple[int, str]] = []
    for line in text.splitlines():
        heads = [(found.end(), found[0]) for found in re.finditer(rf"\b(?:{names})\b", line)]
        if heads and "  " in line:
            columns = heads
            continue
        for end, name in columns:
            for found in NUMBER.finditer(line):
                if abs(found.end() - end) <= 1 and float(found[0].replace(",", "")) == value:
                    yield f"{name} {value:g} in a table"


def asserted(source: str, value: float, question: Question) -> Iterator[str]:
    """Yields the asserts in `source` that compare with the number `value`. If it is less than
    SMALL, only asserts that also name the question's unit."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assert):
            continue
        words = ast.unparse(node)
        if value < SMALL and not any(name in words for name in question.nouns if "_" in name):
            continue
        if any(constant(part) == value for part in ast.walk(node)):
            yield words


def constant(node: ast.AST) -> float | None:
    """Returns the value of a number, or of an expression of numbers; None for other code."""
    if not isinstance(node, ast.expr) or any(
        isinstance(part, ast.Name | ast.Call | ast.Attribute) for part in ast.walk(node)
    ):
        return None
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
    except Exception:
        return None
    return float(value) if isinstance(value, int | float) and value is not True else None
