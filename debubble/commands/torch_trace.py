"""`debubble trace FILE` for a trace of torch.profiler: idle time by cause and place, and steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from debubble.contract.python.garbage import no_collection
from debubble.timeline.trace_file import write_whole
from debubble.timeline.trace_format import TraceFileError
from debubble.traces.findings import Findings
from debubble.traces.summary import Summary, compare, summarize
from debubble.views.timeline.words import format_share, format_time, printable

from .refusal import refuse
from .rich_table import figures_first

MOST_ROWS = 20
MOST_OF_PATH = 6
WORSE = 1
"""The exit status of a trace that is slower or more idle than it may be."""


@dataclass(frozen=True)
class Wanted:
    """The options of the command: `allow` and `most_idle` are percentages."""

    step: int | None = None
    baseline: Path | None = None
    allow: float = 5.0
    most_idle: float | None = None
    gpu: int | None = None
    json: Path | None = None
    measured: float | None = None
    """Milliseconds of a step without a profiler."""


def report(file: Path, wanted: Wanted, width: int | None = None) -> None:
    """Prints what a trace says, and how it differs from the baseline. Exits with status 1 if it is
    worse than `wanted` allows. Raises TraceFileError for a file that can't be read."""
    measured = None if wanted.measured is None else wanted.measured * 1000
    after = read(file, wanted, measured)
    before = read(wanted.baseline, wanted) if wanted.baseline else None
    console = Console(width=width, highlight=False)
    show(after, console)
    if before is not None:
        show_changes(before, after, console)
    if wanted.json is not None:
        try:
            write_whole(json.dumps(after.as_json(), indent=1) + "\n", wanted.json)
        except OSError as error:
            refuse(f"{wanted.json} can't be written: {error.strerror}.")
    if reason := worse(before, after, wanted):
        console.print(Text(reason, style="bold red"))
        raise typer.Exit(WORSE)


def read(file: Path, wanted: Wanted, measured_us: float | None = None) -> Summary:
    from debubble.traces.reading import read_trace

    try:
        with no_collection():
            return summarize(read_trace(file, wanted.gpu), wanted.step, measured_us)
    except TraceFileError:
        raise
    except ValueError as error:
        refuse(f"{file}: {error}.")


def worse(before: Summary | None, after: Summary, wanted: Wanted) -> str | None:
    """Returns why a trace is worse than the options allow, or None."""
    if before is not None and after.step_us > before.step_us * (1 + wanted.allow / 100):
        slower = after.step_us / before.step_us - 1
        return f"A step is {slower:.0%} slower than in the baseline: {wanted.allow:g}% is allowed."
    if wanted.most_idle is not None and after.idle_share * 100 > wanted.most_idle:
        return f"The device is idle for {after.idle_share:.1%}: {wanted.most_idle:g}% is allowed."
    return None


def show(summary: Summary, console: Console) -> None:
    found = summary.findings
    what = f"Step {printable(summary.step.name)}" if summary.step else "The trace"
    console.print(Text(f"{what} ({printable(summary.label)}, under torch.profiler)"))
    if found.span:
        console.print(
            f"The device was idle for {format_share(summary.idle_share)} of "
            f"{format_time(found.span)}."
        )
    if found.places:
        console.print()
        causes = cause_rows(found)
        console.print(figures_first(("idle", "share", "cause"), causes, console.width, figures=2))
        console.print()
        rows = place_rows(summary)
        headings = ("idle", "share", "times", "without it", "cause", "look at")
        console.print(figures_first(headings, rows[:MOST_ROWS], console.width, figures=4))
        if len(rows) > MOST_ROWS:
            console.print(f"({len(rows) - MOST_ROWS:,} more)")
    show_path(summary, console)
    show_steps(summary, console)
    for note in summary.notes:
        console.print(Text(f"- {printable(note)}"), soft_wrap=True)


def cause_rows(found: Findings) -> list[tuple[str, ...]]:
    causes = sorted(found.causes.items(), key=lambda item: -item[1])
    return [(format_time(time), f"{time / found.span:.1%}", cause) for cause, time in causes]


def place_rows(summary: Summary) -> list[tuple[str, ...]]:
    found = summary.findings
    return [
        (
            format_time(place.microseconds),
            f"{place.microseconds / found.span:.1%}",
            f"{place.times:,}",
            f"-{summary.without[place]:.1%}" if place in summary.without else "",
            place.cause,
            printable(place.place),
        )
        for place in found.places
    ]


def show_path(summary: Summary, console: Console) -> None:
    """Prints the largest parts of the critical path of the whole trace."""
    if not summary.path or summary.step:
        return
    rows = [
        (
            f"{part.share:.1%}",
            part.kind,
            " at ".join(filter(None, (str(part.source or ""), part.name))),
        )
        for part in summary.path[:MOST_OF_PATH]
    ]
    console.print()
    console.print(
        figures_first(("of the critical path", "kind", "look at"), rows, console.width, figures=1)
    )


def show_steps(summary: Summary, console: Console) -> None:
    steps = summary.steps
    if not steps.steps:
        return
    console.print()
    number = len(steps.steps)
    doubt = "" if steps.found_by == "annotations" else " (layers, if the trace has one step)"
    text = f"{number:,} steps, found by {steps.found_by}{doubt}: the usual one takes "
    console.print(text + format_time(steps.usual) + ".")
    for step in sorted(steps.outliers, key=lambda step: -step.length)[:5]:
        place = steps.steps.index(step) + 1
        console.print(
            Text(f"  {printable(step.name)} takes {format_time(step.length)} (--step {place})")
        )


def show_changes(before: Summary, after: Summary, console: Console) -> None:
    console.print()
    console.print(
        f"A step: {format_time(before.step_us)} in the baseline, {format_time(after.step_us)} now."
    )
    rows = [
        (
            format_time(change.before),
            format_time(change.after),
            change.cause,
            printable(change.place),
        )
        for change in compare(before, after)[:MOST_ROWS]
    ]
    if rows:
        headings = ("idle before", "now", "cause", "look at")
        console.print(figures_first(headings, rows, console.width, figures=2))
