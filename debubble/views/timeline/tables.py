"""Bubbles as rows, and rows as a table: for the terminal, and for readers who can't see the
lanes."""

from __future__ import annotations

from collections.abc import Sequence

from debubble.timeline.bubbles import Bubble

from .words import format_time, printable

Row = tuple[str, ...]
BUBBLE_HEADINGS: Row = ("idle", "share", "bubbles", "cause", "look at")


def bubble_rows(bubbles: Sequence[Bubble], span: float) -> list[Row]:
    """Returns a row for each cause and line, with the idle time of all their bubbles, the longest
    first. Shares are of `span`, the microseconds from the device's first event to the end of its
    last."""
    totals: dict[tuple[str, str], tuple[float, int]] = {}
    lines: dict[int, str] = {}
    for bubble in bubbles:
        line = lines.get(id(bubble.source))
        if line is None:
            line = printable(str(bubble.source or "(no line known)"))
            lines[id(bubble.source)] = line
        key = (bubble.cause, line)
        idle, count = totals.get(key, (0.0, 0))
        totals[key] = (idle + bubble.duration, count + 1)
    ordered = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return [
        (format_time(idle), f"{idle / span:.1%}", f"{count:,}", cause, line)
        for (cause, line), (idle, count) in ordered
    ]


def align(headings: Row, rows: Sequence[Row], right: int) -> str:
    """Returns a table as text, with columns two spaces apart, the first `right` of them flush
    right."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    lines = []
    for row in table:
        cells = [
            f"{cell:>{width}}" if column < right else f"{cell:<{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
