"""The crossover as a map: which path is the fastest for each number and size of pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from solutions.pictures.sheet import BAR, FAINT, GROUND, INK, Sheet, colour_of

from ..choice.crossover import PATH_WORDS, PATHS, Crossover
from ..measure.grid import short_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 760
LEFT, RIGHT, TOP = 88, 744, 66
ROW = 26
PALEST, FULL_AT = 0.2, 8.0
"""Opacity of a cell if both paths are equally fast, and how many times as long the slower path must
take for a cell to be opaque."""


@dataclass(frozen=True)
class CrossoverPicture:
    """A table whose cells are coloured by the fastest path: rows are bytes per piece, columns are
    numbers of pieces. The number in a cell says how many times as long the other path takes."""

    crossover: Crossover

    @property
    def title(self) -> str:
        return f"The fastest path, measured on {self.crossover.gpu}, and how much faster it is"

    @property
    def text(self) -> str:
        """The picture in words, without its numbers: they differ from machine to machine."""
        sizes, counts = self.crossover.sizes, self.crossover.counts
        return (
            "The fastest path by bytes a piece and number of pieces\n"
            f"{short_size(sizes[0])} to {short_size(sizes[-1])}, {counts[0]} to {counts[-1]} "
            f"pieces: {'; '.join(PATH_WORDS.values())}"
        )

    @property
    def numbers(self) -> str:
        """The cells as text: a row for each size, with the fastest path and its lead for each
        number of pieces."""
        rows = []
        for nbytes in self.crossover.sizes:
            cells = [self.cell(nbytes, count) for count in self.crossover.counts]
            words = ", ".join(f"{PATH_WORDS[path]} {lead:.3g}×" for path, lead in cells)
            rows.append(f"{short_size(nbytes)}: {words}")
        counts = ", ".join(map(str, self.crossover.counts))
        return "\n".join([self.title, f"pieces: {counts}", *rows])

    @property
    def figure(self) -> Figure:
        below = TOP + ROW * len(self.crossover.sizes) + 14
        sheet = Sheet(WIDTH, below + 60, self.numbers)
        sheet.label(LEFT, 20, self.title, "left", bold=True)
        sheet.label(LEFT - 12, TOP - 8, "pieces", "right", FAINT)
        for count, middle in zip(self.crossover.counts, self.middles, strict=True):
            sheet.label(middle, TOP - 8, count, colour=FAINT)
        for row, nbytes in enumerate(self.crossover.sizes):
            self._draw_row(sheet, TOP + ROW * row, nbytes)
        self._draw_legend(sheet, below)
        return sheet.figure

    @property
    def middles(self) -> np.ndarray:
        """x of the middles of the columns in CSS pixels, [C]."""
        edges = np.linspace(LEFT, RIGHT, len(self.crossover.counts) + 1)
        return (edges[:-1] + edges[1:]) / 2

    def cell(self, nbytes: int, count: int) -> tuple[str, float]:
        """Returns the fastest path for `count` pieces of `nbytes` bytes, and how many times as long
        the other path takes."""
        times = {path: self.crossover.time_us(path, nbytes, count) for path in PATHS}
        best = min(times, key=times.__getitem__)
        return best, max(times.values()) / times[best]

    def _draw_row(self, sheet: Sheet, top: float, nbytes: int) -> None:
        sheet.label(LEFT - 12, top + 15, short_size(nbytes), "right")
        cells = [self.cell(nbytes, count) for count in self.crossover.counts]
        colours = [(colour_of(PATHS.index(path)), opacity_of(lead)) for path, lead in cells]
        width = (RIGHT - LEFT) / len(cells)
        sheet.boxes(self.middles - width / 2, width, top, colours)
        for middle, (_, lead), (_, opacity) in zip(self.middles, cells, colours, strict=True):
            ink = GROUND if opacity > 0.8 else INK
            sheet.label(middle, top + 15, f"{lead:.3g}×", colour=ink, size=11)

    def _draw_legend(self, sheet: Sheet, top: float) -> None:
        for number, words in enumerate(PATH_WORDS.values()):
            left = LEFT + 190 * number
            sheet.boxes([left], ROW, top, [colour_of(number)])
            sheet.label(left + ROW + 6, top + 15, words, "left")
        words = "A number: how many times as long the other engine takes. Pale: nearly as long."
        sheet.label(LEFT, top + BAR + 24, words, "left", FAINT)


def opacity_of(lead: float) -> float:
    share = min(1.0, math.log(max(1.0, lead)) / math.log(FULL_AT))
    return round(PALEST + (1 - PALEST) * share, 3)
