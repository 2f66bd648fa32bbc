"""A question before the answer: the learner commits to a number, then measures it."""

from __future__ import annotations

import html

import ipywidgets

WIDE = ipywidgets.Layout(width="auto")


class Prediction(ipywidgets.VBox):
    """Holds a whole number of the learner's; `compare` puts the answer beside it.

    What it prints is the answer alone, so that a notebook's text doesn't depend on the guess.
    """

    def __init__(self, question: str) -> None:
        self.question = question
        self._number = ipywidgets.IntText(
            description="I say", layout=ipywidgets.Layout(width="12em")
        )
        self._commit = ipywidgets.Button(description="Commit")
        self._verdict = ipywidgets.HTML(html.escape("No prediction yet."))
        self._commit.on_click(self._keep)
        self.guess: int | None = None
        row = ipywidgets.HBox([self._number, self._commit, self._verdict])
        super().__init__([ipywidgets.HTML(f"<b>Predict:</b> {html.escape(question)}"), row])

    def compare(self, answer: int) -> None:
        """Prints the answer, and says beside the question how far off the learner was."""
        print(answer)
        self._number.disabled = self._commit.disabled = True
        if self.guess is None:
            self._say(f"It is {answer:,}. Next time commit first: a wrong guess teaches more.")
        elif self.guess == answer:
            self._say(f"It is {answer:,}, as you said.")
        else:
            self._say(f"You said {self.guess:,}; it is {answer:,}. What did you not count on?")

    def _keep(self, button: ipywidgets.Button) -> None:
        self.guess = self._number.value
        self._say(f"You say {self.guess:,}. Now run the next cells.")

    def _say(self, text: str) -> None:
        self._verdict.value = html.escape(text)

    def __repr__(self) -> str:
        return f"Predict: {self.question}"

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, "text/plain": repr(self)}, metadata


def predict(question: str) -> Prediction:
    return Prediction(question)
