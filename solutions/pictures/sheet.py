"""A sheet to draw the chapters' pictures on with matplotlib, and their colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import ColorType
    from numpy.typing import ArrayLike

Point = tuple[float, float]
"""A place, (x, y) in CSS pixels."""
Mark = tuple[object, ...]
"""A mark of a sheet: "label", "line" or "box", then its values, positions in CSS pixels."""

INK, FAINT, GROUND = "#1f2933", "#55606d", "#ffffff"
SEQUENCE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5548a", "#4b3b8f")
"""The colours of sequences, from the timelines' palette (after Okabe and Ito); each sequence's
number is written beside it."""
BAR = 22
"""Height of a box, in CSS pixels."""
DIGIT = 9
"""Width that a box needs for each character of its word, in CSS pixels."""
PIXELS_PER_INCH, DOTS_PER_PIXEL = 96, 1.4
POINT = 72 / PIXELS_PER_INCH
"""Points of a CSS pixel: matplotlib gives fonts and lines in points."""


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def colour_of(sequence: int) -> str:
    return SEQUENCE_COLOURS[sequence % len(SEQUENCE_COLOURS)]


def ink_on(colour: ColorType) -> str:
    """Returns the colour of words on a box of `colour`: white or nearly black, whichever differs
    more."""
    from matplotlib.colors import to_rgb

    channels = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in to_rgb(colour)
    ]
    light = 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
    return GROUND if light < LIGHT else DARK_INK


DARK_INK = "#10141a"
LIGHT = 0.19
"""The luminance of a colour, 0 to 1, from which on DARK_INK differs more from it than white."""


class Sheet:
    """A matplotlib figure to draw on, with `words` as its label. Positions are in CSS pixels from
    the top left corner; the axes are not seen."""

    def __init__(self, width: float, height: float, words: str) -> None:
        from matplotlib.figure import Figure

        size = (width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
        dots_per_inch = PIXELS_PER_INCH * DOTS_PER_PIXEL
        self.figure = Figure(size, dots_per_inch, facecolor=GROUND, label=words)
        self.axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()
        self.marks: list[Mark] = []
        """The labels, lines and boxes in their order. The site draws the same in JavaScript."""

    def label(
        self,
        x: float,
        y: float,
        words: object,
        align: str = "center",
        colour: str = INK,
        size: float = 12,
        bold: bool = False,
    ) -> None:
        """Writes `words` at `x`, with their baseline at `y`. `align` says which part of them is at
        `x`."""
        self.marks.append(("label", x, y, str(words), align, colour, size, bold))
        weight = "bold" if bold else "normal"
        self.axes.text(x, y, str(words), ha=align, color=colour, size=size * POINT, weight=weight)

    def line(
        self, start: Point, end: Point, colour: str, width: float = 1, dashed: bool = False
    ) -> None:
        """Draws a straight line, `width` CSS pixels wide."""
        self.marks.append(("line", *start, *end, colour, width, dashed))
        (x1, y1), (x2, y2) = start, end
        style = "dashed" if dashed else "solid"
        self.axes.plot(
            (x1, x2),
            (y1, y2),
            color=colour,
            linestyle=style,
            linewidth=width * POINT,
            solid_capstyle="butt",
        )

    def boxes(
        self,
        lefts: ArrayLike,
        widths: ArrayLike,
        top: float,
        colours: Sequence[ColorType],
        words: Sequence[object] = (),
    ) -> None:
        """Draws a row of boxes, with a small gap between neighbours and a word in each that has
        room for it. A colour may be (colour, opacity)."""
        spans = [*zip(*np.broadcast_arrays(lefts, widths), strict=True)]
        self.axes.broken_barh(
            spans, (top, BAR), facecolors=colours, edgecolor=GROUND, linewidth=1.5 * POINT
        )
        self.marks += [
            ("box", left, top, width, *(colour if isinstance(colour, tuple) else (colour, 1)))
            for (left, width), colour in zip(spans, colours, strict=False)
        ]
        for (left, width), colour, word in zip(spans, colours, words, strict=False):
            if width > DIGIT * len(str(word)):
                ink = ink_on(colour) if colour in SEQUENCE_COLOURS else FAINT
                self.label(left + width / 2, top + 15, word, colour=ink)

    def place_of(self, axes: Axes, x: float, y: float) -> tuple[float, float]:
        """Returns the sheet's (x, y) for the point (`x`, `y`) of other `axes` in the same
        figure."""
        across, down = self.axes.transData.inverted().transform(axes.transData.transform((x, y)))
        return across, down
