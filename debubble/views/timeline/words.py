"""Words and numbers that all views share: durations, shares, ticks, lanes."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from debubble.timeline.event import Event
from debubble.timeline.perfetto import lane_order

TICK_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
"""The units of a time axis: microseconds in one unit, and its name."""


def printable(text: str) -> str:
    """Returns the text in one line, without characters that a terminal would obey: a timeline from
    elsewhere may hold any character. Each control character or line separator becomes �."""
    if text.isprintable():
        return text
    words = text.replace("\t", " ")
    return "".join("�" if _is_obeyed(letter) else letter for letter in words)


def _is_obeyed(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category[0] == "C" or category in ("Zl", "Zp")


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def drawable(text: str, width: int) -> str:
    """Returns a recording's text escaped for matplotlib, at most `width` characters: a pair of
    dollars would make it a formula, and a wrong formula an error."""
    return cut(printable(text), width).replace("$", r"\$")


def format_time(microseconds: float) -> str:
    """Returns a duration such as `0.8 µs`, `12.5 µs`, `3.21 ms` or `1.500 s`."""
    if abs(microseconds) < 1000:
        return f"{microseconds:.1f} µs"
    if abs(microseconds) < 1_000_000:
        return f"{microseconds / 1000:.2f} ms"
    return f"{microseconds / 1_000_000:.3f} s"


def format_share(share: float) -> str:
    """Returns a percentage, `0%` only for exactly 0: `<1%`, `27%`."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def format_tick(microseconds: float, step: float) -> str:
    """Returns a label as short as possible that differs from the label of a tick `step`
    microseconds later: `250 µs`, `1 ms`, `6.515 ms`."""
    size, unit = next(
        (size, unit) for size, unit in TICK_UNITS if abs(microseconds) >= size or unit == "µs"
    )
    decimals = max(0, math.ceil(math.log10(size / step)))
    number = f"{microseconds / size:.{decimals}f}"
    return f"{number.rstrip('0').rstrip('.') if decimals else number} {unit}"


def nice_ticks(start: float, end: float, most: int) -> list[float]:
    """Returns the round numbers from `start` to `end` at which ticks stand, in at most `most` equal
    steps of 1, 2 or 5 times a power of ten. Returns [start] if `end` is not after it or `most` is
    0."""
    span = end - start
    if span <= 0 or most < 1:
        return [start]
    step = 10 ** math.floor(math.log10(span / most))
    step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= most)
    first = math.ceil(start / step - 1e-9)
    return [number * step for number in range(first, math.floor(end / step + 1e-9) + 1)]


def ordered_lanes(events: Sequence[Event]) -> list[str]:
    """Returns the lanes of these events: the host first, then the streams by their number."""
    lanes = {event.lane for event in events}
    host = [event.lane for event in events if not event.on_device][:1]
    return host + sorted(lanes - set(host), key=lane_order)
