"""A question whose answer is drawn: from when to when does the device do nothing?"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import ipywidgets

from .question import Question

WIDTH, LEFT, RIGHT, LANE, AXIS = 640, 60, 620, 34, 58
WORK, MARK, INK = "#0072b2", "#b34a00", "#1f2933"


class Stretch(NamedTuple):
    """A stretch of time, in milliseconds from the start of the drawing."""

    start: float
    end: float

    def common(self, other: Stretch) -> float:
        return max(0.0, min(self.end, other.end) - max(self.start, other.start))

    @property
    def length(self) -> float:
        return self.end - self.start


class StretchQuestion(Question[Stretch, Stretch]):
    """A question that is answered by marking a stretch of the device's lane, which shows its known
    work. Two handles move the mark; each handle takes the arrow keys, and both numbers can be
    typed."""

    def __init__(
        self, question: str, milliseconds: float, known: Mapping[str, tuple[float, float]]
    ) -> None:
        self.milliseconds, self.known = milliseconds, dict(known)
        self.field = ipywidgets.FloatRangeSlider(
            value=(0.0, 0.0),
            min=0.0,
            max=milliseconds,
            step=milliseconds / 80,
            description="from, to (ms)",
            readout_format=".2f",
            tooltip=f"Your answer: {question}",
            style={"description_width": "9em"},
            layout=ipywidgets.Layout(width=f"{WIDTH}px", max_width="100%"),
        )
        self._drawn = ipywidgets.HTML()
        super().__init__(question, self._drawn, self.field)
        self.field.observe(self._draw, names="value")
        self._draw()

    def compare(self, answer: tuple[float, float], because: str = "") -> None:
        """Shows the answer (start, end), in milliseconds, as soon as the reader has committed."""
        super().compare(Stretch(*answer), because)

    def read(self) -> Stretch:
        stretch = Stretch(*self.field.value)
        if stretch.length <= 0:
            raise ValueError("Nothing is marked: move the two handles apart.")
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
        self._draw()

    def _draw(self, change: dict | None = None) -> None:
        stretches = {"your mark": Stretch(*self.field.value)}
        if self.answer is not None and not self.is_open:
            stretches["what happened"] = self.answer
        self._drawn.value = self.svg(stretches)

    def svg(self, stretches: Mapping[str, Stretch]) -> str:
        """Returns the device's lane as SVG, with the known work and the named `stretches`, such as
        the reader's mark. Its label describes it in words."""
        words, parts = [f"The device, 0 to {self.milliseconds:g} ms"], []
        for name, (start, end) in self.known.items():
            parts.append(self._box(start, end, LANE - 12, 24, WORK, name))
            words.append(f"{name} from {start:g} to {end:g} ms")
        for row, (name, stretch) in enumerate(stretches.items()):
            if stretch.length > 0:
                top = LANE - 15 + 22 * row
                parts.append(self._box(*stretch, top, 8, MARK, ""))
                right = self._x(stretch.end) + 4
                parts.append(f'<text x="{right:.0f}" y="{top + 8}" fill="{MARK}">{name}</text>')
                words.append(f"{name} from {stretch.start:.2f} to {stretch.end:.2f} ms")
        for tick in range(int(self.milliseconds) + 1):
            x = self._x(tick)
            parts.append(f'<text x="{x:.0f}" y="{AXIS + 14}" text-anchor="middle">{tick} ms</text>')
            parts.append(f'<path d="M{x:.0f} {AXIS - 4}v6" stroke="{INK}"/>')
        label = escape("; ".join(words))
        return (
            f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {AXIS + 20}" '
            f'style="max-width:{WIDTH}px;width:100%;background:#fff" font-size="12" fill="{INK}">'
            f'<text x="4" y="{LANE + 4}">device</text>'
            f'<path d="M{LEFT} {AXIS}H{RIGHT}" stroke="{INK}"/>{"".join(parts)}</svg>'
        )

    def _box(
        self, start: float, end: float, top: float, height: float, colour: str, name: str
    ) -> str:
        left, width = self._x(start), self._x(end) - self._x(start)
        text = f'<text x="{left + 4:.0f}" y="{top + 16}" fill="#fff">{escape(name)}</text>'
        box = f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height}" '
        return f'{box}fill="{colour}" rx="2"/>{text if name else ""}'

    def _x(self, milliseconds: float) -> float:
        return LEFT + (RIGHT - LEFT) * milliseconds / self.milliseconds


def predict_stretch(
    question: str, milliseconds: float, known: Mapping[str, tuple[float, float]]
) -> StretchQuestion:
    """Returns a question whose answer is an interval on the device's lane. The whole lane is
    `milliseconds` long. `known` is the known part of the device's work by name: (start, end) in
    milliseconds."""
    return StretchQuestion(question, milliseconds, known)
