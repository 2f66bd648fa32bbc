"""A question whose answer is one of several lines of code, or of several words."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from .question import Question


class LineQuestion(Question[str, str]):
    """A question that is answered by choosing one of several lines; none is chosen beforehand."""

    def __init__(self, question: str, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        self.field = ipywidgets.RadioButtons(
            options=self.lines,
            value=None,
            description="My answer",
            tooltip=f"Your answer: {question}",
            layout=ipywidgets.Layout(width="auto"),
        )
        super().__init__(question, self.field)

    def read(self) -> str:
        if self.field.value is None:
            raise ValueError("Nothing is chosen: choose an answer.")
        return self.field.value

    def parse(self, words: str) -> str:
        """Returns the line that an earlier answer chose. Raises ValueError if the question no
        longer offers it."""
        return self.lines[self.lines.index(words)]

    def guess_in_words(self, guess: str) -> str:
        return guess

    def answer_in_words(self, answer: str) -> str:
        if answer not in self.lines:
            raise ValueError(f"{answer!r} is none of the choices: {', '.join(self.lines)}")
        return answer

    def judge(self, guess: str, answer: str) -> str:
        return "That is right." if guess == answer else "What did you miss?"

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *(f"  ( ) {line}" for line in self.lines)])


def predict_line(question: str, lines: Sequence[str]) -> LineQuestion:
    return LineQuestion(question, lines)
