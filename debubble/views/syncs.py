"""Host syncs that were found, as rows and sentences, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from debubble.detector.ending import Ending
from debubble.detector.findings import Finding, races_of
from debubble.timeline.data import TimelineData

from .timeline.tables import Row, align
from .timeline.words import format_time, printable

FIGURES = ("held", "worst", "times", "idle")


def text(
    timeline: TimelineData,
    findings: Sequence[Finding],
    allowed: Sequence[Finding],
    stack: bool = False,
    endings: Sequence[Ending] = (),
) -> str:
    """Plain text: tables, what the words mean, what to write instead, and the sum. `stack` shows
    every line of a library on the way to a wait, and not the innermost alone."""
    blocks = []
    if races := race_lines(timeline):
        blocks.append("\n".join(["Races:", *races]))
    if findings:
        blocks += [align(*table(findings, stack), len(FIGURES)), *meanings(findings)]
        blocks.append("\n".join(["Instead:", *remedies(findings)]))
    if allowed:
        blocks.append(f"Allowed:\n{align(*table(allowed, stack), len(FIGURES))}")
    return "\n\n".join([*blocks, "\n".join(sentences(timeline, findings, allowed, endings))])


def race_lines(timeline: TimelineData) -> list[str]:
    """Returns a sentence for each race that was proved, with both lines and how often."""
    lines = []
    for race, times in races_of(timeline).items():
        often = "" if times == 1 else f" ({times:,} times)"
        lines.append(printable(f"  {race.message}{often}"))
    return lines


def table(findings: Sequence[Finding], stack: bool = False) -> tuple[Row, list[Row]]:
    """Headings and rows; threads are named if there is more than the one that recorded. Below a
    line that calls a library stand the library's."""
    threads = any(finding.thread for finding in findings)
    headings = (*FIGURES, "waits for", *(["thread"] if threads else []), "line")
    rows: list[Row] = []
    for finding in findings:
        rows.append(
            (
                format_time(finding.held),
                format_time(finding.worst),
                f"{finding.count:,}",
                format_time(finding.idle),
                finding.what,
                *([printable(finding.thread or "")] if threads else []),
                printable(str(finding.source or "(no line known)")),
            )
        )
        nothing = ("",) * (len(headings) - 1)
        rows += [(*nothing, printable(line)) for line in _below(finding, stack)]
    return headings, rows


def _below(finding: Finding, stack: bool) -> list[str]:
    """What is said of a line below it: where a library waits, and whose gradient it is."""
    source = finding.source
    if source is None:
        return []
    inside = source.inside if stack else source.inside[-1:]
    forward = [f"  for the gradient of {source.forward}"] if source.forward else []
    return [*(f"  in {line.in_library}" for line in inside), *forward]


def remedies(findings: Sequence[Finding]) -> list[str]:
    """What to write instead of each line, the costliest first."""
    said = dict.fromkeys(
        f"  {finding.source.place if finding.source else '(no line known)'}: {finding.instead}"
        for finding in findings
    )
    rest = len(said) - MOST_REMEDIES
    return [
        *map(printable, list(said)[:MOST_REMEDIES]),
        *([f"  ({rest} more)"] if rest > 0 else []),
    ]


MOST_REMEDIES = 12


def meanings(findings: Sequence[Finding]) -> list[str]:
    """One sentence for each thing that was waited for."""
    said = dict.fromkeys(f"{finding.what}: {finding.meaning}" for finding in findings)
    return [*said, IDLE] if said else []


IDLE = "idle: the time in which the device then had nothing to do."


def sentences(
    timeline: TimelineData,
    findings: Sequence[Finding],
    allowed: Sequence[Finding],
    endings: Sequence[Ending] = (),
) -> list[str]:
    """The sum, what was allowed, and what keeps the report from being the whole story."""
    used_the_device = bool(timeline.events)
    said = [f"{ending.sentence}." for ending in endings]
    if endings:
        said.append("What did not run because of that is not in this report.")
    races = len(races_of(timeline))
    if races:
        said.append(
            f"{'One race was' if races == 1 else f'{races:,} races were'} proved: results may be "
            "wrong."
        )
    if findings:
        said.append(f"The host was held {_sum(findings)} ({timeline.label}).")
    elif used_the_device and races:
        said.append(f"The host never waited for the device ({timeline.label}).")
    elif used_the_device and endings:
        said.append(f"No wait was seen in what ran ({timeline.label}).")
    elif used_the_device:
        said.append(f"No host syncs: the host never waited for the device ({timeline.label}).")
    if allowed:
        said.append(f"Allowed: {_sum(allowed)}.")
    if not used_the_device and endings:
        said.append(f"Nothing had run on the device before ({timeline.description}).")
    elif not used_the_device:
        said.append(
            f"Nothing ran on the device ({timeline.description}), so there was nothing to find."
        )
    if timeline.cut_off:
        said.append(
            "The recording was full before the end, and what came later is not listed: "
            "look at fewer steps, or raise the limit."
        )
    return [*map(printable, said)]


def _sum(findings: Sequence[Finding]) -> str:
    """`12 times at 3 lines, for 1.20 ms in all`"""
    times = sum(finding.count for finding in findings)
    lines = len({finding.source and finding.source[:2] for finding in findings})
    held = format_time(sum(finding.held for finding in findings))
    return (
        f"{'once' if times == 1 else f'{times:,} times'} at "
        f"{'one line' if lines == 1 else f'{lines:,} lines'}, for {held} in all"
    )
