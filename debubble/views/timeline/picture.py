"""A timeline as a PNG: for notebooks without a kernel, and for documents.

Drawn with matplotlib's objects and never with pyplot, whose state belongs to the reader's cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from debubble.timeline.data import Finished, TimelineData

from .caption import MOST_LANES, WIDEST_LANE, alt_text, is_stacked
from .dress import dress
from .merging import Span, join_by_share, shade
from .palette import CAUSE_HATCHES, CAUSE_STYLES, EVENT_STYLES, GROUND
from .words import drawable, ordered_lanes

WIDTH = 9.6
DOTS_PER_INCH = 110
# The place of an event within its row of height 1, counted from the bottom.
HEIGHTS = {"launch": (0.1, 0.5), "graph_launch": (0.1, 0.8)}
TALL = (0.1, 0.9)
GHOSTED = (0.1, 0.68)
GHOST = (0.1, 0.95)
GHOST_ALPHA = 0.25
MARK = 0.06
"""The height, in rows, of the line that marks an event however short it is."""
Box = list[tuple[float, float]]
"""The corners of a box, in microseconds and rows."""


def draw_png(
    timeline: TimelineData, before: TimelineData | None = None, ignore_sleep: bool = False
) -> bytes:
    """Returns the picture of a timeline as a PNG, with `before` ghosted behind. With
    `ignore_sleep`, its words describe the part after a leading sleep, which is still drawn."""
    timeline, before = Finished.of(timeline), before and Finished.of(before)
    figure = draw_figure(timeline, before, ignore_sleep)
    description = {"Description": alt_text(timeline, before, ignore_sleep)}
    buffer = BytesIO()
    figure.savefig(buffer, format="png", metadata=description)
    return buffer.getvalue()


def draw_figure(
    timeline: TimelineData, before: TimelineData | None = None, ignore_sleep: bool = False
) -> Figure:
    """Returns the picture of a timeline as a matplotlib figure: the lanes from the top down, the
    bubbles as shaded bands with a row of their own."""
    timeline, before = Finished.of(timeline), before and Finished.of(before)
    lanes, rows = lanes_and_rows(timeline, before)
    own_rows, device_rows = len(rows), len(rows) - lanes.count("host")
    stacked = before is not None and is_stacked(timeline, before)
    if stacked:
        rows = [f"{which}: {row}" for which in ("before", "after") for row in rows]
    figure = Figure((WIDTH, 1.35 + 0.42 * len(rows)), DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    figure.set_facecolor(GROUND)
    axes = figure.add_subplot()
    longest = max(timeline.length, before.length if before else 0.0, 1e-3)
    pixel = (longest - first_shown(timeline, before, longest)) / (WIDTH * DOTS_PER_INCH * 0.9)
    if before is not None:
        draw_events(axes, before, lanes, len(rows), pixel, ghost=not stacked)
        draw_bubbles(axes, before, device_rows, len(rows) - own_rows, pixel, ghost=not stacked)
    ghosted = before is not None and not stacked
    draw_bubbles(axes, timeline, device_rows, 0, pixel, ghosted=ghosted)
    draw_events(axes, timeline, lanes, own_rows, pixel, ghosted=ghosted)
    start = first_shown(timeline, before, longest)
    axes.set_xlim(start - 0.005 * (longest - start), longest + 0.005 * (longest - start))
    dress(axes, timeline, before, rows, ignore_sleep)
    return figure


def first_shown(timeline: TimelineData, before: TimelineData | None, longest: float) -> float:
    """Returns the first moment that is drawn, in microseconds: 0, or the end of a load that is long
    beside the rest of a busy recording. The live timeline has the same rule."""
    both = [timeline, before] if before is not None else [timeline]
    load = min(one.span - one.device_span(ignore_sleep=True) for one in both)
    is_busy = any(sum(event.on_device for event in one.events) > MANY for one in both)
    if not is_busy or load <= LONG_LOAD * longest:
        return 0.0
    return load - LOAD_SEEN * (longest - load)


LONG_LOAD, LOAD_SEEN = 0.15, 0.05
"""The share of the axis from which on a load is left out, and the share that its end still has."""
MANY = 50
"""Events of the device, without which a load is the subject of a picture."""


def lanes_and_rows(
    timeline: TimelineData, before: TimelineData | None
) -> tuple[list[str], list[str]]:
    """Returns the lanes that are drawn, and the names of all rows, both from the top down."""
    every_lane = ordered_lanes([*timeline.events, *(before.events if before else [])])
    lanes = every_lane[:MOST_LANES]
    more = (
        [f"({len(every_lane) - MOST_LANES:,} more lanes)"] if len(lanes) < len(every_lane) else []
    )
    return lanes, [*(drawable(lane, WIDEST_LANE) for lane in lanes), *more, "idle"]


def draw_events(
    axes: Axes,
    timeline: TimelineData,
    lanes: Sequence[str],
    rows: int,
    pixel: float,
    ghost: bool = False,
    ghosted: bool = False,
) -> None:
    """Draws the events of a recording as boxes in the rows of `lanes`, the uppermost of `rows`;
    `pixel` is in microseconds. `ghost` draws the recording before a change, `ghosted` one that lies
    over such a ghost."""
    spans: dict[tuple[str, str], list[Span]] = {}
    for event in timeline.events:
        style = event.copy_kind or event.kind
        spans.setdefault((style, event.lane), []).append((event.start, event.end))
    origin = first_start(timeline)
    for layer, (key, (_, colour, _)) in enumerate(EVENT_STYLES.items()):
        low, high = GHOST if ghost else HEIGHTS.get(key, TALL)
        high = min(high, GHOSTED[1]) if ghosted else high
        boxes, shares, marks = [], [], []
        for row, lane in enumerate(reversed(lanes), rows - len(lanes)):
            seen = [(start - origin, end - origin) for start, end in spans.get((key, lane), ())]
            for start, end, share in shade(seen, pixel):
                boxes.append(rectangle(start, end, row + low, row + high))
                shares.append(share)
                if share < 1:
                    marks.append(rectangle(start, end, row + low, row + low + MARK))
        hatch = "////" if key == "sync" and not ghost else None
        alpha, order = (GHOST_ALPHA, 2.0) if ghost else (1.0, 4 + layer * 0.1)
        add_boxes(axes, boxes, colour, alpha, order, hatch, shares)
        add_boxes(axes, marks, colour, alpha, order)


def draw_bubbles(
    axes: Axes,
    timeline: TimelineData,
    device_rows: int,
    bottom: int,
    pixel: float,
    ghost: bool = False,
    ghosted: bool = False,
) -> None:
    """Draws a box in the row "idle" for each bubble, and a pale band over the rows of the device.
    These are `device_rows` rows from the row `bottom` on, which is "idle", counted from below."""
    origin = first_start(timeline)
    low, high = GHOST if ghost else GHOSTED if ghosted else TALL
    found = timeline.bubbles()
    for cause, (colour, _) in CAUSE_STYLES.items():
        spans = [(b.start - origin, b.end - origin) for b in found if b.cause == cause]
        spans = join_by_share(spans, pixel)
        boxes = [rectangle(start, end, bottom + low, bottom + high) for start, end in spans]
        if ghost:
            add_boxes(axes, boxes, colour, GHOST_ALPHA, 2)
            continue
        bands = [rectangle(start, end, bottom, bottom + device_rows) for start, end in spans]
        add_boxes(axes, bands, colour, 0.13, 1)
        add_boxes(axes, boxes, colour, 1.0, 5, CAUSE_HATCHES[cause])


def add_boxes(
    axes: Axes,
    boxes: Sequence[Box],
    colour: str,
    alpha: float,
    order: float,
    hatch: str | None = None,
    shares: Sequence[float] | None = None,
) -> None:
    """Draws boxes; `shares` says how full each box is, by default completely."""
    if boxes:
        edge = GROUND if hatch else colour
        axes.add_collection(
            PolyCollection(
                boxes,
                zorder=order,
                facecolors=[(colour, alpha * share) for share in shares or [1.0] * len(boxes)],
                edgecolors=edge,
                linewidths=0,
                hatch=hatch,
            )
        )


def rectangle(left: float, right: float, bottom: float, top: float) -> Box:
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def first_start(timeline: TimelineData) -> float:
    return min((event.start for event in timeline.events), default=0.0)
