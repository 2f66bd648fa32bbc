"""Finds the numbers in a chapter's prose, and their origin: its code, or its cells' outputs."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from .notebooks import Cell
from .spoilers import constant
from .terms import prose

NUMBER = re.compile(r"(?<![\w.,#-])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w#]|[.,]\d)")
ANY_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d[\d_]*(?:\.\d+)?")
NAMES = (
    r"#\d+",  # a pull request
    r"[Cc]hapters? \d\d(?:(?:,| to| and) \d\d)*",
    r"[Ss]ections? \d+",
    r"Llama-3-\d+B",
    r"Gemma 3",
    r"Qwen3-Next",
    r"[HB]\d00",
    r"PyTorch \d\.\d+",
    r"\bint\d+",
    r"\b(?:[Rr]equests?|[Ss]equences?|[Ss]tream|[Gg]roup|[Bb]locks?|[Pp]age|[Rr]ow|[Pp]rogram|"
    r"[Cc]hunk|[Ss]teps?|[Rr]anks?|number|first|second|slot|column) -?\d+(?:(?:,| and| to) \d+)*\b",
    r"\| Time \|.*",
    r"\| You need \|.*",
)
"""Patterns of numbers that need no measurement: parts of names, such as a model's, numbers of
chapters, requests or rows, and the time that a chapter takes."""


def stray_numbers(cells: Sequence[Cell]) -> Iterator[tuple[str, str]]:
    """Yields (cell id, number) for each number in the chapter's prose that stands in none of its
    code and outputs, neither exactly nor rounded."""
    known = {number for cell in cells if cell.kind == "code" for number in numbers_of(cell)}
    for cell in cells:
        text = prose(cell)
        for name in NAMES:
            text = re.sub(name, " ", text)
        for whole, decimals in NUMBER.findall(text):
            value = float(whole.replace(",", "") + decimals)
            if not is_known(value, len(decimals), known):
                yield cell.id, f"{whole}{decimals}"


def numbers_of(cell: Cell) -> Iterator[float]:
    """Yields the numbers in a cell's code, the values of its constant expressions, and the numbers
    in its outputs."""
    for found in ANY_NUMBER.findall(f"{cell.source}\n{cell.shown}"):
        yield float(found.replace(",", "").replace("_", ""))
    for node in ast.walk(ast.parse(cell.source)):
        value = constant(node) if isinstance(node, ast.BinOp) else None
        if value is not None:
            yield value


def is_known(value: float, decimals: int, known: Collection[float]) -> bool:
    """Returns True if a number of `known` is `value`, exactly or rounded. `decimals` is how many
    characters the number in the text has from its decimal point on."""
    half = 0.5 * 10.0 ** -max(0, decimals - 1)
    exact = decimals == 0 and value < 100
    return any(
        number == value
        or (abs(number - value) <= half * 1.001 and (not exact or number != int(number)))
        for number in known
    )
