"""How fast small pieces are copied, by their size: a curve for each path, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from solutions.measure.svg_shapes import FAINT, GROUND, INK, colour_of, counted, label, line

from ..choice.crossover import PATH_WORDS, Crossover
from ..measure.grid import short_size

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 580, 44, 306
"""Where curves are drawn; the paths' names stand right of their ends."""
GRID = "#e3e8ed"
DOT = 6
NAMES_APART = 16
DIGITS = (1, 2, 5)
"""What the ticks of GB/s begin with."""


@dataclass(frozen=True)
class BandwidthPicture:
    """Of copies of so many pieces each; ValueError if there is nothing to draw."""

    sizes: Sequence[int]
    """[S] bytes a piece, increasing."""
    bandwidths: Mapping[str, Sequence[float]]
    """[S] GB/s of each path, by the name that is written beside its curve."""
    count: int
    """Pieces of a copy."""
    caption: str
    """Where and how this was measured."""
    large_copy: float | None = None
    """GB/s of one large copy, which no path can exceed."""

    def __post_init__(self) -> None:
        if not self.sizes or not self.bandwidths:
            raise ValueError("a curve needs a size and a path at least")
        for path, curve in self.bandwidths.items():
            if len(curve) != len(self.sizes) or not all(0 < rate < math.inf for rate in curve):
                raise ValueError(f"{path!r} needs {len(self.sizes)} bandwidths above 0")

    @classmethod
    def of(
        cls, crossover: Crossover, count: int, large_copy: float | None = None
    ) -> BandwidthPicture:
        """As it is called: with the time that the submission takes."""
        bandwidths = {
            words: [
                nbytes * count / crossover.time_us(path, nbytes, count) / 1e3
                for nbytes in crossover.sizes
            ]
            for path, words in PATH_WORDS.items()
        }
        caption = f"{crossover.gpu}, from the call until all has arrived"
        return cls(crossover.sizes, bandwidths, count, caption, large_copy)

    @property
    def title(self) -> str:
        return f"GB/s by the size of a piece, {counted(self.count, 'piece')} a copy"

    @property
    def text(self) -> str:
        """What is drawn, without what was measured: that differs from machine to machine."""
        ends = f"{short_size(self.sizes[0])} to {short_size(self.sizes[-1])}"
        return f"{self.title}\n{ends}: {'; '.join(self.bandwidths)}"

    @property
    def figures(self) -> str:
        """A row for each size."""
        rows = [
            f"{short_size(nbytes)}: "
            + ", ".join(f"{path} {curve[row]:.3g}" for path, curve in self.bandwidths.items())
            for row, nbytes in enumerate(self.sizes)
        ]
        large = [] if self.large_copy is None else [f"one large copy: {self.large_copy:.3g}"]
        return "\n".join([self.title, self.caption, *rows, *large])

    @property
    def svg(self) -> str:
        parts = [
            label(LEFT, 20, self.title, anchor="start", weight=600),
            *self._grid(),
            *self._large_copy(),
            *self._curves(),
            *self._names(),
            label((LEFT + RIGHT) / 2, BOTTOM + 38, "bytes a piece", colour=FAINT),
            label(LEFT, HEIGHT - 10, self.caption, anchor="start", colour=FAINT),
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" role="img" aria-label="{escape(self.figures)}" '
            f'style="max-width: 100%; height: auto" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>{"".join(parts)}</svg>'
        )

    def x_of(self, nbytes: float) -> float:
        return LEFT + (RIGHT - LEFT) * _share(nbytes, self.sizes[0], self.sizes[-1])

    def y_of(self, bandwidth: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * _share(bandwidth, self.ticks[0], self.ticks[-1])

    @property
    def ticks(self) -> list[float]:
        """Of GB/s, round numbers from below the slowest to above the fastest."""
        drawn = [rate for curve in self.bandwidths.values() for rate in curve]
        drawn += [] if self.large_copy is None else [self.large_copy]
        powers = range(math.floor(math.log10(min(drawn))), math.ceil(math.log10(max(drawn))) + 1)
        rounds = [digit * 10.0**power for power in powers for digit in DIGITS]
        lowest = max(tick for tick in rounds if tick <= min(drawn))
        highest = min(tick for tick in rounds if tick >= max(drawn))
        return [tick for tick in rounds if lowest <= tick <= highest]

    def _grid(self) -> Iterator[str]:
        for tick in self.ticks:
            y = self.y_of(tick)
            yield line(LEFT, y, RIGHT, y, GRID)
            yield label(LEFT - 8, y + 4, f"{tick:g}", anchor="end", colour=FAINT)
        named = -math.inf
        for nbytes in self.sizes:
            x = self.x_of(nbytes)
            yield line(x, TOP, x, BOTTOM, GRID)
            if x - named > 52:
                named = x
                yield label(x, BOTTOM + 18, short_size(nbytes), colour=FAINT)

    def _large_copy(self) -> Iterator[str]:
        if self.large_copy is not None:
            y = self.y_of(self.large_copy)
            yield line(LEFT, y, RIGHT, y, INK, dashes="3 2")
            yield label(LEFT + 4, y - 5, f"one large copy: {self.large_copy:.3g}", anchor="start")

    def _curves(self) -> Iterator[str]:
        for number, curve in enumerate(self.bandwidths.values()):
            colour = colour_of(number)
            points = [
                (self.x_of(nbytes), self.y_of(rate))
                for nbytes, rate in zip(self.sizes, curve, strict=True)
            ]
            for (x1, y1), (x2, y2) in pairwise(points):
                yield line(x1, y1, x2, y2, colour, width=2.5)
            for x, y in points:
                yield dot(x, y, colour)

    def _names(self) -> Iterator[str]:
        """Each at the end of its curve, or as near to it as the others let it be."""
        ends = sorted(
            (self.y_of(curve[-1]), number, path)
            for number, (path, curve) in enumerate(self.bandwidths.items())
        )
        x, lowest = self.x_of(self.sizes[-1]) + 10, BOTTOM - NAMES_APART * (len(ends) - 1)
        free = -math.inf
        for place, (y, number, path) in enumerate(ends):
            y = max(free, min(y, lowest + NAMES_APART * place))
            free = y + NAMES_APART
            yield label(x, y + 4, path, "start", colour_of(number), weight=600)


def dot(x: float, y: float, colour: str) -> str:
    return (
        f'<rect x="{x - DOT / 2:.1f}" y="{y - DOT / 2:.1f}" width="{DOT}" height="{DOT}" '
        f'fill="{colour}"/>'
    )


def _share(value: float, first: float, last: float) -> float:
    """How far from first to last on a logarithmic axis: 0 to 1; 0.5 if they are the same."""
    if first == last:
        return 0.5
    return math.log(value / first) / math.log(last / first)
