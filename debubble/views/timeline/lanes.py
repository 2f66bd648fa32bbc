"""A timeline as lanes of text, for terminals and for the texts of failing tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from debubble.timeline.bubbles import CAUSES, Bubble, Cause, device_work, find_gaps
from debubble.timeline.data import TimelineData
from debubble.timeline.event import Event

from .palette import EVENT_STYLES
from .words import cut, format_tick, nice_ticks, ordered_lanes, printable

# Later glyphs are drawn over earlier ones where they share a column: the rare event stays visible.
GLYPHS = dict(zip(EVENT_STYLES, "╷█▪◆△▼▲G≈mC▒", strict=True))
GLYPH_WORDS = {key: words for key, (words, _, _) in EVENT_STYLES.items()} | {
    "sync": "host sync: the host waits"
}
RANK = {key: rank for rank, key in enumerate(GLYPHS)}
CAUSE_LETTERS: dict[Cause, str] = dict(zip(CAUSES, "hcko", strict=True))
DEFAULT_WIDTH = 78
MOST_LANES = 40


@dataclass(frozen=True)
class Window:
    """The part of a timeline that is drawn: `columns` characters from `start` to `end` µs."""

    start: float
    end: float
    columns: int

    def position(self, time: float) -> float:
        return (time - self.start) / (self.end - self.start) * self.columns

    def cells(self, start: float, end: float) -> range:
        """Returns the columns that an event touches: at least one, none when it lies outside."""
        if end < self.start or start > self.end:
            return range(0)
        first = min(max(int(self.position(start)), 0), self.columns - 1)
        last = min(max(int(self.position(end) - 1e-9), first), self.columns - 1)
        return range(first, last + 1)


def text_lanes(
    timeline: TimelineData,
    width: int = DEFAULT_WIDTH,
    *,
    around: Sequence[Event] | None = None,
    mark: Event | None = None,
    note: str | None = None,
    title: str | None = None,
    bubbles: Sequence[Bubble] | None = None,
) -> str:
    """Returns one row per lane, a row of bubbles, a time axis and a legend, `width` columns wide.

    around: draw only the part with these events and the events they touch; default: everything.
    mark:   point at this event in a row of its own, with `note` (default: its source line).
    bubbles: the timeline's bubbles, if the caller has found them already.
    """
    width = max(width, 40)
    heading = printable(f"{title}: {timeline.label}" if title else timeline.label)[:width]
    if not timeline.events:
        return f"{heading}\n(nothing was recorded)"
    every_lane = ordered_lanes(timeline.events)
    lanes = every_lane[:MOST_LANES]
    margin = min(max(map(len, [*lanes, "bubbles"])), width // 3) + 2
    window = choose_window(timeline, around, width - margin)
    rows = list(lane_rows(timeline.events, lanes, window).items())
    drawn_glyphs = set("".join(row for _, row in rows))
    if mark is not None:
        place = next((i for i, (lane, _) in enumerate(rows) if lane == mark.lane), len(rows) - 1)
        rows[place + 1 : place + 1] = [("", row) for row in mark_rows(mark, note, window)]
    found = timeline.bubbles() if bubbles is None else bubbles
    letters = bubble_row([bubble for bubble in found if overlaps(bubble, window)], window)
    rows.append(("bubbles", letters))
    rows += [("", row) for row in axis_rows(window, timeline.modelled)]
    drawn = [
        f"{cut(printable(name), margin - 2):<{margin - 2}} ┊{row}".rstrip() for name, row in rows
    ]
    if len(every_lane) > len(lanes):
        drawn.insert(len(lanes), f"({len(every_lane) - len(lanes):,} more lanes)")
    legend = [f"{g} {GLYPH_WORDS[key]}" for key, g in GLYPHS.items() if g in drawn_glyphs]
    legend += [f"{letter} {cause}" for cause, letter in CAUSE_LETTERS.items() if letter in letters]
    return "\n".join([heading, *drawn, *wrap(legend, width)])


def choose_window(timeline: TimelineData, around: Sequence[Event] | None, columns: int) -> Window:
    """Returns a window of all events, or of `around`, their launches and kernels, and the gaps that
    they lie in."""
    events = timeline.events
    first, last = min(event.start for event in events), max(event.end for event in events)
    if not around:
        return window_of(first, last, columns)
    shown = list(around)
    shown += [launch for launch in map(timeline.launch_of, around) if launch is not None]
    launches = {index for index, event in enumerate(events) if event in around}
    shown += [event for event in events if event.launched_by in launches]
    start, end = min(event.start for event in shown), max(event.end for event in shown)
    device = device_work(events)
    gaps = list(find_gaps(events, device)) if device else []
    gaps = [gap for gap in gaps if gap.end >= start and gap.start <= end]
    start = min([start, *(gap.start for gap in gaps)])
    end = max([end, *(gap.end for gap in gaps)])
    room = max((end - start) * 0.2, 2.0)
    return window_of(max(start - room, first), min(end + room, last), columns)


def window_of(start: float, end: float, columns: int) -> Window:
    """Returns a window from `start` to `end`, at least a nanosecond long: the only event may have
    no duration."""
    return Window(start, max(end, start + 1e-3), columns)


def overlaps(part: Event | Bubble, window: Window) -> bool:
    return part.end >= window.start and part.start <= window.end


def glyph_key(event: Event) -> str:
    return event.copy_kind or event.kind


def lane_rows(events: Sequence[Event], lanes: Sequence[str], window: Window) -> dict[str, str]:
    """Returns the row of text of each lane, by lane. A column is filled with the event's glyph when
    an event touches it, however short the event is; gaps stay blank."""
    ranks = {lane: [-1] * window.columns for lane in lanes}
    for event in events:
        row = ranks.get(event.lane)
        if row is not None:
            rank = RANK[glyph_key(event)]
            for column in window.cells(event.start, event.end):
                row[column] = max(row[column], rank)
    glyphs = [*GLYPHS.values(), " "]
    return {lane: "".join(glyphs[rank] for rank in row) for lane, row in ranks.items()}


def bubble_row(bubbles: Sequence[Bubble], window: Window) -> str:
    """Returns the row of text that shows the bubbles: a column that is idle for half of its time or
    more has the letter of its main cause, and the others are blank."""
    idle: list[dict[Cause, float]] = [{} for _ in range(window.columns)]
    for bubble in bubbles:
        start, end = window.position(bubble.start), window.position(bubble.end)
        for column in window.cells(bubble.start, bubble.end):
            share = min(end, column + 1) - max(start, column)
            idle[column][bubble.cause] = idle[column].get(bubble.cause, 0.0) + share
    letters = []
    for causes in idle:
        if sum(causes.values()) >= 0.5:
            letters.append(CAUSE_LETTERS[max(CAUSES, key=lambda cause: causes.get(cause, 0.0))])
        else:
            letters.append(" ")
    return "".join(letters)


def mark_rows(mark: Event, note: str | None, window: Window) -> list[str]:
    """Returns rows of text that point at an event: carets under it, and the note beside them if it
    fits, else in a row of its own."""
    cells = window.cells(mark.start, mark.end) or range(1)
    text = printable(note if note is not None else str(mark.source or mark.name))
    carets = " " * cells.start + "^" * len(cells)
    if len(carets) + 1 + len(text) <= window.columns:
        return [f"{carets} {text}"]
    indent = min(cells.start, max(window.columns - len(text), 0))
    return [carets, " " * indent + cut(text, window.columns)]


def axis_rows(window: Window, modelled: bool) -> list[str]:
    """Returns the two rows of text of the time axis: a ruler with ticks, and their times from the
    start of the recording."""
    ruler, labels = ["─"] * window.columns, [" "] * window.columns
    word = "modelled time" if modelled else "measured time"
    free = 0
    ticks = nice_ticks(window.start, window.end, max(window.columns // 14, 2))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else window.end - window.start
    for tick in ticks:
        column = min(int(window.position(tick)), window.columns - 1)
        label = format_tick(tick, step)
        if column >= free and column + len(label) <= window.columns - len(word) - 2:
            ruler[column] = "┴"
            labels[column : column + len(label)] = label
            free = column + len(label) + 2
    labels[window.columns - len(word) :] = word
    return ["".join(ruler), "".join(labels)]


def wrap(parts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += "   " + part
        else:
            lines.append(part)
    return lines
