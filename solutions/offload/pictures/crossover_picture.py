"""The crossover as a map: which path is the fastest for so many pieces of so many bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from solutions.measure.svg_shapes import BAR, FAINT, GROUND, INK, box, colour_of, label

from ..choice.crossover import PATH_WORDS, PATHS, Crossover
from ..measure.grid import short_size

WIDTH = 760
LEFT, RIGHT, TOP = 88, 744, 66
ROW = 26
PALEST, FULL_AT = 0.2, 8.0
"""A cell's opacity where both are as fast, and the lead at which it is full."""


@dataclass(frozen=True)
class CrossoverPicture:
    """A cell says how many times as long the other engine takes: the DMA engine beside a kernel,
    the faster of the kernels beside DMA."""

    crossover: Crossover

    @property
    def title(self) -> str:
        return f"The fastest path on {self.crossover.gpu}, and how much faster it is"

    @property
    def text(self) -> str:
        """What is drawn, without what was measured: that differs from machine to machine."""
        sizes, counts = self.crossover.sizes, self.crossover.counts
        return (
            "The fastest path by bytes a piece and number of pieces\n"
            f"{short_size(sizes[0])} to {short_size(sizes[-1])}, {counts[0]} to {counts[-1]} "
            f"pieces: {'; '.join(PATH_WORDS.values())}"
        )

    @property
    def figures(self) -> str:
        """A row for each size, from the fewest pieces to the most."""
        rows = []
        for nbytes in self.crossover.sizes:
            cells = [self.cell(nbytes, count) for count in self.crossover.counts]
            words = ", ".join(f"{PATH_WORDS[path]} {lead:.3g}×" for path, lead in cells)
            rows.append(f"{short_size(nbytes)}: {words}")
        counts = ", ".join(map(str, self.crossover.counts))
        return "\n".join([self.title, f"pieces: {counts}", *rows])

    @property
    def svg(self) -> str:
        parts = [
            label(LEFT, 20, self.title, anchor="start", weight=600),
            *self._columns(),
            *self._cells(),
            *self._legend(),
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" role="img" aria-label="{escape(self.figures)}" '
            f'style="max-width: 100%; height: auto" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
            f'<rect width="{WIDTH}" height="{self.height}" fill="{GROUND}"/>{"".join(parts)}</svg>'
        )

    @property
    def height(self) -> float:
        return self.legend_top + 60

    @property
    def legend_top(self) -> float:
        return TOP + ROW * len(self.crossover.sizes) + 14

    def cell(self, nbytes: int, count: int) -> tuple[str, float]:
        """(the fastest path, how many times as long the other engine takes)."""
        times = {path: self.crossover.time_us(path, nbytes, count) for path in PATHS}
        best = min(times, key=times.__getitem__)
        others = [path for path in PATHS if (path == "dma") != (best == "dma")]
        return best, min(times[path] for path in others) / times[best]

    def _columns(self) -> Iterator[str]:
        yield label(LEFT - 12, TOP - 8, "pieces", anchor="end", colour=FAINT)
        for column, count in enumerate(self.crossover.counts):
            yield label(self._middle_of(column), TOP - 8, str(count), colour=FAINT)

    def _cells(self) -> Iterator[str]:
        for row, nbytes in enumerate(self.crossover.sizes):
            top = TOP + ROW * row
            yield label(LEFT - 12, top + 15, short_size(nbytes), anchor="end")
            for column, count in enumerate(self.crossover.counts):
                path, lead = self.cell(nbytes, count)
                middle, half = self._middle_of(column), self._width / 2
                opacity = opacity_of(lead)
                yield box(middle - half, middle + half, top, colour_of(PATHS.index(path)), opacity)
                ink = GROUND if opacity > 0.8 else INK
                yield label(middle - 1, top + 15, f"{lead:.3g}×", colour=ink, size=11)

    def _legend(self) -> Iterator[str]:
        for number, words in enumerate(PATH_WORDS.values()):
            left = LEFT + 190 * number
            yield box(left, left + ROW, self.legend_top, colour_of(number))
            yield label(left + ROW + 6, self.legend_top + 15, words, anchor="start")
        words = "A number: how many times as long the other engine takes. Pale: nearly as long."
        yield label(LEFT, self.legend_top + BAR + 24, words, anchor="start", colour=FAINT)

    def _middle_of(self, column: int) -> float:
        return LEFT + self._width * (column + 0.5)

    @property
    def _width(self) -> float:
        return (RIGHT - LEFT) / len(self.crossover.counts)


def opacity_of(lead: float) -> float:
    share = min(1.0, math.log(max(1.0, lead)) / math.log(FULL_AT))
    return round(PALEST + (1 - PALEST) * share, 3)
