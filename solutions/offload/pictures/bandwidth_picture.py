"""A picture of how fast small pieces are copied, by their size: a curve for each path, on
logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solutions.pictures.sheet import FAINT, INK, POINT, Sheet, colour_of, counted

from ..choice.crossover import PATH_WORDS, Crossover
from ..measure.grid import short_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 580, 44, 306
"""Borders of the area with the curves in CSS pixels; each path's name is to the right of its
curve's end."""
PLACE = (LEFT / WIDTH, 1 - BOTTOM / HEIGHT, (RIGHT - LEFT) / WIDTH, (BOTTOM - TOP) / HEIGHT)
GRID = "#e3e8ed"
MARGIN = 1.02
"""Factor by which an axis extends beyond the smallest and the largest value that it shows."""
SIZES_APART, NAMES_APART = 66, 16
CURVE: dict[str, Any] = {"linewidth": 2, "markersize": 4.5, "clip_on": False}
DIGITS = (1, 2, 5)
"""Digits with which the ticks of GB/s begin."""


@dataclass(frozen=True)
class BandwidthPicture:
    """A picture of how many GB/s each path copies over the size of a piece, as a curve for each
    path; all copies have `count` pieces. Raises ValueError if there is nothing to draw."""

    sizes: Sequence[int]
    """[S] bytes per piece, increasing."""
    bandwidths: Mapping[str, Sequence[float]]
    """[S] GB/s of each path, by the name that is written beside its curve."""
    count: int
    """Number of pieces of each copy."""
    caption: str
    """A text that names the device and how the times were measured."""
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
        """Returns the picture of a crossover's paths for copies of `count` pieces: their times
        include the submission."""
        bandwidths = {
            words: [
                nbytes * count / crossover.time_us(path, nbytes, count) / 1e3
                for nbytes in crossover.sizes
            ]
            for path, words in PATH_WORDS.items()
        }
        caption = f"measured on {crossover.gpu}, from the call until all has arrived"
        return cls(crossover.sizes, bandwidths, count, caption, large_copy)

    @property
    def title(self) -> str:
        return f"GB/s by the size of a piece, {counted(self.count, 'piece')} a copy"

    @property
    def text(self) -> str:
        """The picture in words, without its numbers: they differ from machine to machine."""
        ends = f"{short_size(self.sizes[0])} to {short_size(self.sizes[-1])}"
        return f"{self.title}\n{ends}: {'; '.join(self.bandwidths)}"

    @property
    def numbers(self) -> str:
        """The picture's numbers as text, GB/s, with a row for each size."""
        rows = [
            f"{short_size(nbytes)}: "
            + ", ".join(f"{path} {curve[row]:.3g}" for path, curve in self.bandwidths.items())
            for row, nbytes in enumerate(self.sizes)
        ]
        large = [] if self.large_copy is None else [f"one large copy: {self.large_copy:.3g}"]
        return "\n".join([self.title, self.caption, *rows, *large])

    @property
    def figure(self) -> Figure:
        sheet = Sheet(WIDTH, HEIGHT, self.numbers)
        axes = self._draw_axes(sheet)
        sheet.label(LEFT, 20, self.title, "left", bold=True)
        sheet.label(LEFT, HEIGHT - 10, self.caption, "left", FAINT)
        if self.large_copy is not None:
            axes.axhline(self.large_copy, color=INK, linestyle="dashed", linewidth=POINT)
            _, y = sheet.place_of(axes, self.sizes[0], self.large_copy)
            sheet.label(LEFT + 8, y - 5, f"one large copy: {self.large_copy:.3g}", "left")
        for number, curve in enumerate(self.bandwidths.values()):
            axes.plot(self.sizes, curve, "s-", color=colour_of(number), **CURVE)
        self._draw_names(sheet, axes)
        return sheet.figure

    @property
    def ticks(self) -> list[float]:
        """Round numbers of GB/s for the axis, from below the slowest to above the fastest."""
        drawn = [rate for curve in self.bandwidths.values() for rate in curve]
        drawn += [] if self.large_copy is None else [self.large_copy]
        powers = range(math.floor(math.log10(min(drawn))), math.ceil(math.log10(max(drawn))) + 1)
        rounds = [digit * 10.0**power for power in powers for digit in DIGITS]
        lowest = max(tick for tick in rounds if tick <= min(drawn))
        highest = min(tick for tick in rounds if tick >= max(drawn))
        return [tick for tick in rounds if lowest <= tick <= highest]

    def _draw_axes(self, sheet: Sheet) -> Axes:
        """Adds logarithmic axes, with a label at each size that is far enough from the label before
        it."""
        axes = sheet.figure.add_axes(PLACE, frameon=False)
        axes.set(xscale="log", xlim=(self.sizes[0] / MARGIN, self.sizes[-1] * MARGIN))
        axes.set(yscale="log", ylim=(self.ticks[0] / MARGIN, self.ticks[-1] * MARGIN))
        axes.minorticks_off()
        axes.tick_params(length=0, pad=6, labelsize=12 * POINT, labelcolor=FAINT)
        axes.grid(color=GRID)
        axes.set_xlabel("bytes a piece", color=FAINT, size=12 * POINT)
        axes.set_yticks(self.ticks, [f"{tick:g}" for tick in self.ticks])
        names, named = [], -math.inf
        for nbytes in self.sizes:
            x, _ = sheet.place_of(axes, nbytes, self.ticks[0])
            is_free = x - named > SIZES_APART
            names.append(short_size(nbytes) if is_free else "")
            named = x if is_free else named
        axes.set_xticks(self.sizes, names)
        return axes

    def _draw_names(self, sheet: Sheet, axes: Axes) -> None:
        """Writes each path's name at the end of its curve, or as near to it as the other names
        allow."""
        ends = sorted(
            (sheet.place_of(axes, self.sizes[-1], curve[-1])[1], number, path)
            for number, (path, curve) in enumerate(self.bandwidths.items())
        )
        free, lowest = -math.inf, BOTTOM - NAMES_APART * (len(ends) - 1)
        for place, (y, number, path) in enumerate(ends):
            y = max(free, min(y, lowest + NAMES_APART * place))
            free = y + NAMES_APART
            sheet.label(RIGHT + 10, y + 4, path, "left", colour_of(number), bold=True)
