"""A question before the answer: the reader commits to a guess, and only then sees the answer.

Answering is optional: a cell that has the answer runs all the same, and hides it until the reader
has committed. Without a reader (in a test, in a stored chapter) the answer is shown at once.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from html import escape
from typing import ClassVar, Generic, Protocol, TypeVar

import ipywidgets
from IPython.display import display

from .kept import keep, recall

AT_ONCE = "DEBUBBLE_ANSWERS"
"""The environment variable that is set to "at once" when chapters run without a reader."""
WITHHELD = "The answer appears here once you have committed to yours above."

Guess = TypeVar("Guess")
Answer = TypeVar("Answer")


class Watcher(Protocol):
    """An object on the page that changes when the reader commits, or the answer is known."""

    def update(self) -> None: ...


@dataclass(frozen=True)
class AnswerText:
    """The answer to a question in words, and the reason for it."""

    answer: str
    because: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.answer, self.because)))


class Question(ipywidgets.VBox, Generic[Guess, Answer]):
    """A question on a notebook's page: a field for the reader's guess, a button, and the verdict on
    the guess. Each kind of answer has a subclass.

    `asked` holds the questions of this notebook in their order, for the table at its end.
    """

    asked: ClassVar[list[Question]] = []

    def __init__(self, question: str, *fields: ipywidgets.Widget) -> None:
        self.question = question
        self.guess: Guess | None = None
        self.answer: Answer | None = None
        self.outcome: AnswerText | None = None
        self.watchers: list[Watcher] = []
        self._fields = fields
        self._button = ipywidgets.Button(
            description="Commit", tooltip=f"Commit to your answer: {question}"
        )
        self._verdict = ipywidgets.HTML()
        self._button.on_click(lambda button: self.commit())
        for field in fields:
            field.on_msg(self._on_enter)
        heading = ipywidgets.HTML(f"<b>Predict:</b> {marked_up(question)}")
        super().__init__([heading, *fields, ipywidgets.HBox([self._button, self._verdict])])
        Question.asked[:] = [one for one in Question.asked if one.question != question]
        Question.asked.append(self)
        if (earlier := recall(question)) is not None:
            self._restore(earlier)

    def compare(self, answer: Answer, because: str = "") -> None:
        """Shows the answer, and with it `because` (a sentence or two), as soon as the reader has
        committed, or at once if there is no reader. Text between backticks in it is set as code."""
        self.answer = answer
        self.outcome = AnswerText(self.answer_in_words(answer), because)
        reveal = Reveal(self)
        self.watchers.append(reveal)
        self._update()
        display(reveal)

    def commit(self) -> None:
        """Takes the guess in the fields as the reader's answer: stores it, locks the fields, and
        shows the answer once it is known. If it is no answer, shows the error beside the fields.
        Does nothing after the first answer."""
        if self.guess is not None:
            return
        try:
            guess = self.read()
        except ValueError as error:
            self._say(str(error))
            return
        self.guess = guess
        keep(self.question, self.guess_in_words(guess))
        self._lock()
        self._update()

    @property
    def is_open(self) -> bool:
        """True if a reader could still commit, and has not."""
        return self.guess is None and os.environ.get(AT_ONCE) != "at once"

    def verdict(self) -> str:
        """Returns the reader's guess in words, and where the answer is; "No prediction." without a
        guess."""
        if self.guess is None:
            return "No prediction."
        said = f"You said {self.guess_in_words(self.guess)}."
        return f"{said} {'Now run the next cells.' if self.answer is None else 'See below.'}"

    def read(self) -> Guess:
        """Returns the guess in the fields. Raises ValueError with a sentence if it is no answer."""
        raise NotImplementedError

    def parse(self, words: str) -> Guess:
        """Returns the guess from the words of `guess_in_words`. Raises ValueError for any other
        text."""
        raise NotImplementedError

    def guess_in_words(self, guess: Guess) -> str:
        raise NotImplementedError

    def answer_in_words(self, answer: Answer) -> str:
        """Returns the answer in words that are the same on every machine: without times."""
        raise NotImplementedError

    def judge(self, guess: Guess, answer: Answer) -> str:
        """Returns a sentence that compares the guess with the answer, without the answer."""
        raise NotImplementedError

    def _on_enter(self, field: ipywidgets.Widget, content: dict, buffers: list) -> None:
        """Commits if the reader presses Enter in a text field, which then sends this message."""
        if content.get("event") == "submit":
            self.commit()

    def _lock(self) -> None:
        for control in (*self._fields, self._button):
            control.disabled = True

    def _restore(self, words: str) -> None:
        try:
            self.guess = self.parse(words)
        except ValueError:
            return
        self._lock()
        self._say(f"{self.verdict()} (kept from last time)")

    def _update(self) -> None:
        if self.guess is not None:
            self._say(self.verdict())
        for watcher in self.watchers:
            watcher.update()

    def _say(self, words: str) -> None:
        self._verdict.value = marked_up(words)

    def __repr__(self) -> str:
        return f"Predict: {self.question}"

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        return with_words(super()._repr_mimebundle_(**kwargs), repr(self))


class Reveal(ipywidgets.HTML):
    """The place in a chapter where the answer to a question appears: it is hidden while the
    question is open."""

    def __init__(self, question: Question) -> None:
        self._question = question
        super().__init__()

    def update(self) -> None:
        question = self._question
        if question.is_open or question.outcome is None:
            self.value = f"<i>{escape(WITHHELD)}</i>"
            return
        outcome = question.outcome
        lines = [f"<b>{marked_up(outcome.answer)}</b>"]
        if question.guess is not None and question.answer is not None:
            said = f"You said {question.guess_in_words(question.guess)}."
            lines.append(marked_up(f"{said} {question.judge(question.guess, question.answer)}"))
        if outcome.because:
            lines.append(marked_up(outcome.because))
        self.value = "<br>".join(lines)

    def __repr__(self) -> str:
        question = self._question
        return WITHHELD if question.is_open else str(question.outcome)

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        return with_words(super()._repr_mimebundle_(**kwargs), repr(self))


def with_words(bundle: object, words: str) -> tuple[dict, dict]:
    """Returns a widget's mime bundle with `words` as its plain text, for readers without a live
    widget."""
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    return {**data, "text/plain": words}, metadata


def marked_up(words: str) -> str:
    """Returns the words as HTML, with text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
