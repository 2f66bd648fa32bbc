"""The words of a timeline as a PNG: its heading, its axis, and the picture in words."""

from __future__ import annotations

from debubble.timeline.comparison import COUNT_WORDS
from debubble.timeline.data import TimelineData

from .words import cut, drawable, format_share, format_time, ordered_lanes, printable

STACKED = 3
"""How many times as long one of two recordings must be for the one before to be drawn above the
other one: as a ghost behind it, it could hardly be seen."""
MOST_LANES = 40
"""The most lanes in a picture; if there are more, one more row says how many."""
WIDEST_LANE = 32
"""The most characters of a lane's name."""
WIDEST_LABEL = 110
"""The most characters of the label of the times."""


def is_stacked(timeline: TimelineData, before: TimelineData) -> bool:
    """Returns True if one recording took more than STACKED times as long as the other, without a
    load that queues in front."""
    short, long = sorted(
        one.length - (one.span - one.device_span(ignore_sleep=True)) for one in (timeline, before)
    )
    return long > STACKED * short


def heading(timeline: TimelineData, before: TimelineData | None, ignore_sleep: bool) -> str:
    """Returns the picture's heading: the time from end to end, then the device's idle share. The
    time comes first, since a share can get worse while the whole gets better."""
    idle = f"device {idle_words(timeline, ignore_sleep)}"
    time = f"{format_time(timeline.length)} end to end"
    if before is None:
        return f"{time}, {idle}"
    before_idle = f"before, {place_of(timeline, before)}: {idle_words(before, ignore_sleep)}"
    return f"{time}, before {format_time(before.length)}\n{idle} ({before_idle})"


def origin_of_times(timeline: TimelineData, before: TimelineData | None) -> str:
    """Returns the origin of the times, with the word "modelled" or "measured", and that of the
    other recording if it differs."""
    words = f"time: {drawable(timeline.label, WIDEST_LABEL)}"
    if before is None or before.label == timeline.label:
        return words
    where = place_of(timeline, before)
    return f"{words}\nbefore, {where}: {drawable(before.label, WIDEST_LABEL)}"


def place_of(timeline: TimelineData, before: TimelineData) -> str:
    """Returns where the recording before is drawn: "above" or "ghosted"."""
    return "above" if is_stacked(timeline, before) else "ghosted"


def idle_words(timeline: TimelineData, ignore_sleep: bool = False) -> str:
    share, span = timeline.idle_share(ignore_sleep), timeline.device_span(ignore_sleep)
    return f"idle {format_share(share)} of {format_time(span)}"


def alt_text(
    timeline: TimelineData, before: TimelineData | None = None, ignore_sleep: bool = False
) -> str:
    """Returns a timeline's picture in words, for readers who can't see it: times, lanes, counts and
    idle shares."""
    if not timeline.events:
        return "Timeline without events."
    counts = [
        f"{count:,} {COUNT_WORDS[name][count > 1]}"
        for name, count in timeline.counts().items()
        if count
    ]
    every_lane = ordered_lanes(timeline.events)
    lanes = ", ".join(cut(printable(lane), WIDEST_LANE) for lane in every_lane[:MOST_LANES])
    if len(every_lane) > MOST_LANES:
        lanes += f" and {len(every_lane) - MOST_LANES:,} more"
    label = cut(printable(timeline.label), WIDEST_LABEL)
    parts = [
        f"Timeline ({label}) of {format_time(timeline.length)} with the lanes {lanes}",
        ", ".join(counts),
        f"the device is {idle_words(timeline, ignore_sleep)}",
    ]
    causes = [
        f"{format_share(share)} {cause}"
        for cause, share in timeline.idle_by_cause(ignore_sleep).items()
        if share
    ]
    if causes:
        parts.append("of it " + ", ".join(causes))
    if before is not None:
        if before.label != timeline.label:
            parts.append(f"before: {cut(printable(before.label), WIDEST_LABEL)}")
        where = "above" if is_stacked(timeline, before) else "ghosted behind"
        parts.append(f"{where}, the device before: {idle_words(before, ignore_sleep)}")
    return "; ".join(part for part in parts if part) + "."
