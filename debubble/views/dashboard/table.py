"""The figures of a run beside those of the previous run, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import anywidget
import traitlets

from debubble.timeline.comparison import COUNT_WORDS

from ..javascript import one_module
from ..timeline.tables import Row
from ..timeline.words import format_share
from .run import Run

SOURCE = one_module(Path(__file__).parent / "table.js")
HEADINGS: Row = ("figure", "before", "after", "change")
NONE = "–"


class FigureGroup(TypedDict):
    """A part of the table of figures: rows with the columns of HEADINGS, and the heading above
    them, "" for none."""

    heading: str
    rows: list[Row]


class FigureTable(anywidget.AnyWidget):
    """The table of a run's figures beside those of the previous run, drawn by table.js; a line in
    bold has changed."""

    _esm = SOURCE

    content = traitlets.Dict().tag(sync=True)

    def update(self, after: Run, before: Run | None) -> None:
        self.content = {
            "caption": caption(after, before),
            "headings": HEADINGS,
            "groups": groups(after, before),
        }


def groups(after: Run, before: Run | None) -> list[FigureGroup]:
    parts = {
        "": _figures(after, before),
        "device idle, share of the time": _idle(after, before),
        "counts, in all steps": _counts(after, before),
    }
    return [{"heading": heading, "rows": rows} for heading, rows in parts.items() if rows]


class PlainGroup(TypedDict):
    """A part of the table of one run's figures: rows of (label, text, number). `unit` is the unit
    in which a page shows the change between two runs."""

    heading: str
    unit: str
    rows: list[tuple[str, str, float]]


def plain_groups(run: Run) -> list[PlainGroup]:
    """Returns the figures of one run in the table's parts, for a page that compares runs by
    itself."""
    found = {group["heading"]: group["rows"] for group in groups(run, None)}
    numbers: list[tuple[str, str, list[float]]] = [
        ("", "%", [float(value) for value in run.figures.values()]),
        ("device idle, share of the time", " points", [100 * share for _, share in _shares(run)]),
        ("counts, in all steps", "", [float(n) for n in run.timeline.counts().values()]),
    ]
    return [
        {
            "heading": heading,
            "unit": unit,
            "rows": [(row[0], row[2], n) for row, n in zip(found[heading], values, strict=True)],
        }
        for heading, unit, values in numbers
        if heading in found
    ]


def leading(after: Run, before: Run | None) -> list[str]:
    """Returns the first figure of a run beside that of the previous run: [its name, before or "",
    now, the change or ""]; nothing for a run without figures."""
    if not after.figures:
        return []
    name, now = next(iter(after.figures.items()))
    then = before.figures.get(name) if before else None
    if not then:
        return [name, "", format_figure(now), ""]
    return [name, format_figure(then), format_figure(now), f"× {now / then:.2f}"]


def caption(after: Run, before: Run | None) -> str:
    """Returns the table's caption: the origin of the numbers, and that of the previous run if it
    differs."""
    if before is None or before.source == after.source:
        return after.source
    return f"after: {after.source}; before: {before.source}"


def format_figure(value: float) -> str:
    """Returns three significant digits, `0.912`, `91.2`, `12,345`; of an int, a count, all: `4`."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def _figures(after: Run, before: Run | None) -> list[Row]:
    rows: list[Row] = []
    for label, value in after.figures.items():
        old, change = before.figures.get(label) if before else None, ""
        if old and math.isfinite(old) and math.isfinite(value):
            change = _signed(f"{100 * (value / old - 1):+,.0f}", "%")
        rows.append(
            (label, NONE if old is None else format_figure(old), format_figure(value), change)
        )
    return rows


def _idle(after: Run, before: Run | None) -> list[Row]:
    old = dict(_shares(before)) if before else {}
    rows: list[Row] = []
    for label, share in _shares(after):
        then = old.get(label)
        points = round(100 * share) - round(100 * then) if then is not None else 0
        change = _signed(f"{points:+}", " point" if abs(points) == 1 else " points")
        rows.append(
            (label, NONE if then is None else format_share(then), format_share(share), change)
        )
    return rows


def _shares(run: Run) -> Iterator[tuple[str, float]]:
    yield "in all", run.timeline.idle_share()
    yield from run.timeline.idle_by_cause().items()


def _counts(after: Run, before: Run | None) -> list[Row]:
    old = before.timeline.counts() if before else {}
    return [
        (
            COUNT_WORDS[name][1],
            f"{old[name]:,}" if before else NONE,
            f"{count:,}",
            _signed(f"{count - old[name]:+,}", "") if before else "",
        )
        for name, count in after.timeline.counts().items()
    ]


def _signed(number: str, unit: str) -> str:
    """Returns a signed number with its unit, and with a minus sign as wide as the plus; "" for no
    change."""
    return "" if number in ("+0", "-0") else number.replace("-", "−") + unit
