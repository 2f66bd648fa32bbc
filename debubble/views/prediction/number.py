"""A question whose answer is a number; a reader who isn't sure can give a range."""

from __future__ import annotations

import re
from dataclasses import dataclass

import ipywidgets

from .question import Question

NUMBER = r"[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
RANGE = re.compile(rf"(?:from\s+)?({NUMBER})\s*(?:(?:-|–|\.\.|to)\s*({NUMBER})\s*)?")


@dataclass(frozen=True)
class Range:
    """A range that includes both ends; a single number is a range with equal ends."""

    low: float
    high: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high


class NumberQuestion(Question[Range, float]):
    """A question whose answer, a number or a range, is typed into a text field. The field starts
    empty, since a number in it would suggest an answer."""

    def __init__(self, question: str, unit: str = "") -> None:
        self.unit = unit
        self.field = ipywidgets.Text(
            description="My answer",
            placeholder="a number, or from 5 to 9",
            tooltip=f"Your answer: {question}",
            layout=ipywidgets.Layout(width="20em"),
        )
        super().__init__(question, self.field)

    def read(self) -> Range:
        return self.parse(self.field.value)

    def parse(self, words: str) -> Range:
        words = words.strip().removesuffix(self.unit).removesuffix(singular(self.unit))
        found = RANGE.fullmatch(words.strip())
        if not found:
            what = f"{words.strip()!r} is no answer" if words.strip() else "The field is empty"
            raise ValueError(f"{what}: write a number such as 7, or a range such as 5 to 9.")
        low, high = (number_of(part) for part in (found[1], found[2] or found[1]))
        if low > high:
            raise ValueError(f"{low:g} to {high:g} contains no number: begin with the smaller.")
        return Range(low, high)

    def guess_in_words(self, guess: Range) -> str:
        ends = [in_words(guess.low)]
        if guess.high != guess.low:
            ends.append(in_words(guess.high))
        return self._with_unit(" to ".join(ends))

    def answer_in_words(self, answer: float) -> str:
        return self._with_unit(in_words(answer))

    def judge(self, guess: Range, answer: float) -> str:
        if answer not in guess:
            return "What did you miss?"
        return "That is right." if guess.low == guess.high else "It is within your range."

    def _with_unit(self, words: str) -> str:
        unit = singular(self.unit) if words == "1" else self.unit
        return f"{words} {unit}" if unit else words


def predict(question: str, unit: str = "") -> NumberQuestion:
    """Returns a question whose answer is a number; `unit` follows the number wherever it is shown:
    "waits", "microseconds"."""
    return NumberQuestion(question, unit)


def singular(unit: str) -> str:
    """Returns the singular of a unit: "upload" for "uploads", "copy" for "copies"."""
    return f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")


def number_of(words: str) -> float:
    return float(words.replace(",", "").replace("−", "-"))


def in_words(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:,g}"
