"""Merges boxes without changing the picture: boxes narrower than two pixels become a fill share per
pixel."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

Span = tuple[float, float]
SHADES = 32


class Shaded(NamedTuple):
    """A stretch of a lane, of which events fill `share` (0 to 1)."""

    start: float
    end: float
    share: float


def shade(spans: Iterable[Span], pixel: float) -> list[Shaded]:
    """Returns the stretches to draw for `spans`, pairs of start and end. Spans of two pixels or
    more stay, joined where they overlap. Shorter spans become the pixels that they touch, each with
    the share that they fill, so that a stream that is mostly idle looks idle at any width. Equal
    neighbours are joined, and a span without duration has share 0."""
    shaded: list[Shaded] = []
    filled: dict[int, float] = {}
    for start, end in sorted(spans):
        if end - start >= 2 * pixel:
            if shaded and start < shaded[-1].end:
                start, end = shaded[-1].start, max(end, shaded.pop().end)
            shaded.append(Shaded(start, end, 1.0))
            continue
        for column in range(int(start / pixel), int(end / pixel) + 1):
            share = max(min(end / pixel, column + 1) - max(start / pixel, column), 0.0)
            if share > 0 or start == end:
                filled[column] = filled.get(column, 0.0) + share
    levels = [(column, round(min(filled[column], 1.0) * SHADES)) for column in sorted(filled)]
    # Adjacent columns of one level: the column minus its index in the list stays the same.
    for _, run in groupby(enumerate(levels), lambda one: (one[1][0] - one[0], one[1][1])):
        parts = [part for _, part in run]
        first, level = parts[0]
        last, _ = parts[-1]
        shaded.append(Shaded(first * pixel, (last + 1) * pixel, level / SHADES))
    return shaded


def join_by_share(spans: Iterable[Span], pixel: float) -> list[Span]:
    """Returns the stretches to draw as full for `spans`: those of two pixels or more, joined where
    they overlap, and of shorter ones the pixels that they fill by at least half.

    So a thousand gaps of a tenth of a pixel don't look like one gap.
    """
    kept = sorted((part.start, part.end) for part in shade(spans, pixel) if part.share >= 0.5)
    joined: list[Span] = []
    for start, end in kept:
        if joined and start - joined[-1][1] < pixel / 2:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
