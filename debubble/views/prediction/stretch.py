"""A question whose answer is drawn on a timeline: from when to when does the device do nothing?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import traitlets

from debubble.timeline.data import TimelineData
from debubble.timeline.event import Event

from ..embedding import Bundle, with_embedding
from ..timeline.widget import TimelineWidget
from .question import Question

MS = 1000.0
"""Microseconds of a millisecond."""


class Stretch(NamedTuple):
    """A stretch of time, in milliseconds from the start of the drawing."""

    start: float
    end: float

    def common(self, other: Stretch) -> float:
        return max(0.0, min(self.end, other.end) - max(self.start, other.start))

    @property
    def length(self) -> float:
        return self.end - self.start


class StretchField(TimelineWidget):
    """A timeline of the known work, on which the reader marks a stretch: by dragging, or by the
    arrow keys. It shows what happened beside the mark once `reveal` is called."""

    mark = traitlets.List(traitlets.Float()).tag(sync=True)
    """[start, end] of the reader's mark in microseconds; empty for none."""
    disabled = traitlets.Bool(False).tag(sync=True)

    def __init__(self, milliseconds: float, known: Mapping[str, tuple[float, float]]) -> None:
        self._answer: Stretch | None = None
        super().__init__(timeline_of(known), axis=milliseconds * MS)

    @property
    def value(self) -> tuple[float, float]:
        """The mark, (start, end) in milliseconds; (0, 0) for none."""
        start, end = self.mark or (0.0, 0.0)
        return start / MS, end / MS

    @value.setter
    def value(self, stretch: tuple[float, float]) -> None:
        self.mark = [moment * MS for moment in stretch]

    def reveal(self, answer: Stretch, timeline: TimelineData | None) -> None:
        """Shows what happened below the mark, on the recording `timeline` if there is one."""
        self._answer = answer
        self.update(timeline or self.timeline)

    def _pack(self) -> dict[str, object]:
        packed = super()._pack()
        answer = [moment * MS for moment in self._answer] if self._answer else None
        facts = packed["facts"]
        assert isinstance(facts, dict)
        return {**packed, "facts": {**facts, "asks": True, "answer": answer}}


def timeline_of(known: Mapping[str, tuple[float, float]]) -> TimelineData:
    """Returns a timeline of kernels by name: (start, end) in milliseconds."""
    events = [
        Event("kernel", name, "stream 0", start * MS, (end - start) * MS)
        for name, (start, end) in known.items()
    ]
    return TimelineData("sim", "modelled: what is known before the run", True, events)


class StretchQuestion(Question[Stretch, Stretch]):
    """A question that is answered by marking a stretch of a timeline, which shows the known
    work."""

    field: StretchField

    def __init__(
        self, question: str, milliseconds: float, known: Mapping[str, tuple[float, float]]
    ) -> None:
        self.field = StretchField(milliseconds, known)
        self._recording: TimelineData | None = None
        super().__init__(question, self.field)
        if self.guess is not None:
            self.field.value = self.guess

    def compare(
        self,
        answer: tuple[float, float],
        because: str = "",
        timeline: TimelineData | None = None,
    ) -> None:
        """Shows the answer (start, end), in milliseconds, as soon as the reader has committed, on
        the recording `timeline` if it is given."""
        self._recording = timeline
        super().compare(Stretch(*answer), because)

    def read(self) -> Stretch:
        stretch = Stretch(*self.field.value)
        if stretch.length <= 0:
            raise ValueError("Nothing is marked: drag along the timeline.")
        return stretch

    def parse(self, words: str) -> Stretch:
        start, end = words.removesuffix(" ms").split(" to ")
        return Stretch(float(start), float(end))

    def guess_in_words(self, guess: Stretch) -> str:
        return f"{guess.start:.2f} to {guess.end:.2f} ms"

    def answer_in_words(self, answer: Stretch) -> str:
        """Returns the same words for any answer: times differ from machine to machine, so `because`
        says where the stretch is."""
        return "Here is what happened:"

    def judge(self, guess: Stretch, answer: Stretch) -> str:
        share = guess.common(answer) / max(guess.length, answer.length, 1e-9)
        return f"It is from {self.guess_in_words(answer)}. The two overlap by {share:.0%}."

    def _update(self) -> None:
        super()._update()
        if self.answer is not None and not self.is_open:
            self.field.reveal(self.answer, self._recording)

    def _repr_mimebundle_(self, **kwargs: dict) -> Bundle:
        bundle = super()._repr_mimebundle_(**kwargs)
        return with_embedding(bundle, "question", lambda: ({}, [self.field.state]))


def predict_stretch(
    question: str, milliseconds: float, known: Mapping[str, tuple[float, float]]
) -> StretchQuestion:
    """Returns a question whose answer is an interval on the device's lane of a timeline, which is
    `milliseconds` long. `known` is the known part of the device's work by name: (start, end) in
    milliseconds."""
    return StretchQuestion(question, milliseconds, known)
