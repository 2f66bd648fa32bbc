"""Fewer boxes for the same picture: what is narrower than a pixel is joined."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]


def join_close(spans: Iterable[Span], pixel: float) -> list[Span]:
    """Spans sorted, each at least a `pixel` long, those less than half of one apart joined."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        end = max(end, start + pixel)
        if joined and start - joined[-1][1] < pixel / 2:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def join_by_share(spans: Iterable[Span], pixel: float) -> list[Span]:
    """Spans of two pixels or more as they are; of shorter ones the pixels they half fill.

    So a thousand gaps of a tenth of a pixel don't look like one gap.
    """
    long: list[Span] = []
    filled: dict[int, float] = {}
    for start, end in spans:
        if end - start >= 2 * pixel:
            long.append((start, end))
            continue
        for column in range(int(start / pixel), int(end / pixel) + 1):
            share = min(end / pixel, column + 1) - max(start / pixel, column)
            filled[column] = filled.get(column, 0.0) + share
    short = [(c * pixel, (c + 1) * pixel) for c, share in filled.items() if share >= 0.5]
    return join_close([*long, *short], pixel)
