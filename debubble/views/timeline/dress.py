"""Draws the axes, labels, heading and legend round the events of a PNG."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from debubble.timeline.data import TimelineData

from .caption import heading, origin_of_times
from .palette import CAUSE_HATCHES, CAUSE_STYLES, EVENT_STYLES, FAINT, GROUND, INK
from .words import format_share, format_tick


def dress(
    axes: Axes,
    timeline: TimelineData,
    before: TimelineData | None,
    rows: Sequence[str],
    ignore_sleep: bool,
) -> None:
    """Adds axes, labels, heading and legend to the drawn events, with the word "modelled" or
    "measured" in the picture itself."""
    axes.set_ylim(0, len(rows))
    axes.set_yticks([len(rows) - 0.5 - row for row in range(len(rows))], rows)
    axes.tick_params(length=0, labelsize=8.5, colors=INK)
    step = (axes.get_xlim()[1] - axes.get_xlim()[0]) / 100  # less than the distance of two ticks
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_tick(value, step)))
    axes.set_xlabel(origin_of_times(timeline, before), size=8, color=FAINT)
    for line in range(1, len(rows)):
        axes.axhline(line, color="#e4e7eb", linewidth=0.8, zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#cbd2d9")
    axes.set_title(
        heading(timeline, before, ignore_sleep), loc="left", size=9.5, color=INK, weight="bold"
    )
    events = [*timeline.events, *(before.events if before else [])]
    shown = {event.copy_kind or event.kind for event in events}
    handles = [
        Patch(
            facecolor=colour,
            edgecolor=GROUND,
            hatch="////" if key == "sync" else None,
            linewidth=0,
            label=words,
        )
        for key, (words, colour, _) in EVENT_STYLES.items()
        if key in shown
    ]
    was_idle = before.idle_by_cause(ignore_sleep) if before else {}
    for cause, share in timeline.idle_by_cause(ignore_sleep).items():
        if share > 0 or was_idle.get(cause):
            words = format_share(share) if share > 0 else "(before)"
            handles.append(
                Patch(
                    facecolor=CAUSE_STYLES[cause][0],
                    edgecolor=GROUND,
                    hatch=CAUSE_HATCHES[cause],
                    linewidth=0,
                    label=f"idle, {cause} {words}",
                )
            )
    if handles:
        axes.figure.legend(
            handles=handles, loc="outside lower left", ncols=4, fontsize=8, frameon=False,
            labelcolor=INK, handlelength=1.4, columnspacing=1.6,
        )  # fmt: skip
