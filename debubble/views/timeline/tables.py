"""Events and bubbles as rows, for the terminal and for whoever can't see the lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from debubble.timeline.bubbles import Bubble
from debubble.timeline.data import TimelineData
from debubble.timeline.event import Event

from .words import describe, format_time, printable

Row = tuple[str, ...]
EVENT_HEADINGS: Row = ("start", "duration", "lane", "what", "asked for by")
BUBBLE_HEADINGS: Row = ("idle", "share", "bubbles", "cause", "look at")


def events_table(events: Sequence[Event], limit: int | None = None) -> str:
    """One line an event, in the order given; `limit` cuts it and says so."""
    shown = events if limit is None else events[:limit]
    rows = [
        (
            format_time(event.start),
            format_time(event.duration),
            printable(event.lane),
            printable(describe(event)),
            printable(str(event.source or "")),
        )
        for event in shown
    ]
    text = align(EVENT_HEADINGS, rows, right=2)
    left_out = len(events) - len(shown)
    return f"{text}\n({left_out:,} more events)" if left_out else text


def bubble_rows(timeline: TimelineData, ignore_sleep: bool = False) -> list[Row]:
    """The device's idle time summed over cause and line, the longest first."""
    return rows_of(timeline.bubbles(ignore_sleep), timeline.device_span(ignore_sleep))


def rows_of(bubbles: Iterable[Bubble], span: float) -> list[Row]:
    """The same of `bubbles`, in the `span` microseconds in which the device had work."""
    totals: dict[tuple[str, str], tuple[float, int]] = {}
    for bubble in bubbles:
        key = (bubble.cause, printable(str(bubble.source or "(no line known)")))
        idle, count = totals.get(key, (0.0, 0))
        totals[key] = (idle + bubble.duration, count + 1)
    ordered = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return [
        (format_time(idle), f"{idle / span:.1%}", f"{count:,}", cause, line)
        for (cause, line), (idle, count) in ordered
    ]


def bubbles_table(timeline: TimelineData, ignore_sleep: bool = False) -> str:
    return align(BUBBLE_HEADINGS, bubble_rows(timeline, ignore_sleep), right=3)


def align(headings: Row, rows: Sequence[Row], right: int) -> str:
    """Columns two spaces apart, the first `right` of them flush right."""
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
