"""The table at the end of a chapter: the reader's guesses against the answers."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from .question import Question, marked_up, with_words

HEADINGS = ("question", "you said", "it was")


class Summary(ipywidgets.HTML):
    """A table with the guess and the answer of each question; an answer is hidden until the reader
    has committed, and appears when the reader commits later."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = list(questions)
        super().__init__()
        self.update()

    def update(self) -> None:
        heads = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in HEADINGS)
        rows = "".join(
            f"<tr>{''.join(f'<td>{marked_up(cell)}</td>' for cell in row_of(question))}</tr>"
            for question in self.questions
        )
        self.value = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        return f"Your predictions against what happened: {len(self.questions)} questions"

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        return with_words(super()._repr_mimebundle_(**kwargs), repr(self))


def row_of(question: Question) -> tuple[str, str, str]:
    said = "–" if question.guess is None else question.guess_in_words(question.guess)
    if question.answer is None:
        return question.question, said, "its cells have not run"
    if question.is_open:
        return question.question, said, "commit first"
    answer = str(question.outcome and question.outcome.answer)
    if question.guess is None:
        return question.question, said, answer
    return question.question, said, f"{answer}. {question.judge(question.guess, question.answer)}"


def show_predictions() -> Summary:
    """Returns the table of all questions that this notebook has asked so far."""
    summary = Summary(Question.asked)
    for question in Question.asked:
        question.watchers.append(summary)
    return summary
