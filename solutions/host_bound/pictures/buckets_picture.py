"""A picture of buckets: how many rows a step computes for its tokens, as a staircase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solutions.pictures.sheet import FAINT, INK, POINT, SEQUENCE_COLOURS, Sheet, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

from ..buckets import bucket_for

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 610, 52, 300
PLACE = (LEFT / WIDTH, 1 - BOTTOM / HEIGHT, (RIGHT - LEFT) / WIDTH, (BOTTOM - TOP) / HEIGHT)
STAIRS = SEQUENCE_COLOURS[0]


@dataclass(frozen=True)
class BucketsPicture:
    """A picture of the rows that steps of 1 to the largest bucket's tokens compute. `caption` says
    how the buckets were chosen."""

    buckets: Sequence[int]
    """The sizes of the buckets, increasing."""
    caption: str

    @property
    def padding(self) -> float:
        """The part of the rows that is padding, 0 to 1, if all sizes are as frequent."""
        sizes = range(1, self.buckets[-1] + 1)
        return 1 - sum(sizes) / sum(bucket_for(size, self.buckets) for size in sizes)

    @property
    def title(self) -> str:
        return f"{counted(len(self.buckets), 'bucket')}, {self.padding:.0%} of the rows are padding"

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.caption}: {', '.join(map(str, self.buckets))}"

    @property
    def figure(self) -> Figure:
        sheet = Sheet(WIDTH, HEIGHT, self.text)
        most = self.buckets[-1]
        axes = sheet.figure.add_axes(PLACE, frameon=False, xlim=(0, most), ylim=(0, most))
        sizes = [*range(1, most + 1)]
        rows = [bucket_for(size, self.buckets) for size in sizes]
        axes.fill_between(sizes, sizes, rows, step="pre", color=STAIRS, alpha=0.25, linewidth=0)
        axes.step(sizes, rows, where="pre", color=STAIRS, linewidth=2 * POINT)
        axes.plot([0, most], [0, most], color=INK, linewidth=POINT, linestyle="dashed")
        axes.tick_params(length=0, pad=6, labelsize=12 * POINT, labelcolor=FAINT)
        axes.set_xticks([0, most // 4, most // 2, most])
        axes.set_yticks([0, most // 4, most // 2, most])
        axes.set_xlabel("tokens of the step", color=FAINT, size=12 * POINT)
        sheet.label(LEFT, 20, self.title, "left", bold=True)
        sheet.label(LEFT, 40, "rows that are computed", "left", FAINT)
        sheet.label(LEFT, HEIGHT - 8, self.caption, "left", FAINT)
        return sheet.figure
