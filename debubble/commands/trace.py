"""`debubble trace FILE`: a saved timeline as text, or as a trace for ui.perfetto.dev. Traces of
torch.profiler are those of `torch_trace`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from debubble.timeline.comparison import COUNT_WORDS
from debubble.timeline.timeline import Timeline
from debubble.timeline.trace_format import TraceFileError
from debubble.traces.loader import is_torch_trace
from debubble.views.timeline.lanes import text_lanes
from debubble.views.timeline.tables import BUBBLE_HEADINGS, bubble_rows
from debubble.views.timeline.words import format_share, format_time, printable

from .refusal import refuse
from .rich_table import figures_first
from .torch_trace import Wanted, report

WIDEST = 120
MOST_ROWS = 40
"""The most rows of the bubbles' table, the longest idle times first."""


def trace(
    file: Path,
    perfetto: Path | None = None,
    width: int | None = None,
    wanted: Wanted | None = None,
) -> None:
    """Prints lanes, counts and bubbles of `file`, or writes Perfetto JSON to `perfetto`. `wanted`
    has the options for a trace of torch.profiler.

    Exits with status 2 and one sentence on stderr when a file can't be read or written.
    """
    try:
        if perfetto is None and is_torch_trace(file):
            report(file, wanted or Wanted(), width)
            return
        timeline = Timeline.load(file)
        if perfetto is not None:
            timeline.to_perfetto(perfetto)
    except TraceFileError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{perfetto} can't be written: {error.strerror}.")
    console = Console(width=width, highlight=False)
    if perfetto is not None:
        text = (
            f"{perfetto} written ({printable(timeline.label)}): open it at https://ui.perfetto.dev"
        )
        console.print(Text(text), soft_wrap=True)
        return
    bubbles, span = timeline.bubbles(), timeline.span
    lanes = text_lanes(timeline, min(console.width, WIDEST), bubbles=bubbles)
    console.print(Text(lanes), soft_wrap=True)
    console.print()
    console.print(counts_table(timeline))
    console.print()
    console.print(bubbles_summary(timeline, span))
    rows = bubble_rows(bubbles, span)
    if rows:
        console.print(figures_first(BUBBLE_HEADINGS, rows[:MOST_ROWS], console.width, figures=3))
    if len(rows) > MOST_ROWS:
        console.print(f"({len(rows) - MOST_ROWS:,} more)")
    for hazard in timeline.hazards:
        console.print(Text(f"hazard: {printable(str(hazard))}", style="bold red"))


def counts_table(timeline: Timeline) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, count in timeline.counts().items():
        table.add_row(COUNT_WORDS[name][1], Text(f"{count:,}", justify="right"))
    kept = timeline.kept_by_copies()
    if kept:
        waits = "waits for a download into pageable memory"
        table.add_row(waits, Text(f"{kept:,}", justify="right"))
    return table


def bubbles_summary(timeline: Timeline, span: float) -> Text:
    if not span:
        return Text("The device did nothing.")
    share = format_share(timeline.idle_share())
    return Text(
        f"The device was idle for {share} of {format_time(span)} ({printable(timeline.label)})."
    )
