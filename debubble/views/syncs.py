"""Shows the host syncs that were found, as rows and sentences, for the terminal."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from debubble.contract.source_line import is_of_pytorch
from debubble.detector.ending import Ending
from debubble.detector.findings import Finding, races_of
from debubble.detector.loops import Steps
from debubble.timeline.data import TimelineData
from debubble.timeline.trace_file import portable_path

from .timeline.tables import Row, align
from .timeline.words import format_time, printable

FIGURES = ("held", "worst", "times", "idle")
WIDTH = 160
"""The width in characters of a line of advice where the output has no terminal."""


@dataclass(frozen=True)
class ShownFinding:
    """A row of the table: the sum of the findings that look alike, and the lines below it."""

    finding: Finding
    line: str
    below: tuple[str, ...]


def text(
    timeline: TimelineData,
    findings: Sequence[Finding],
    allowed: Sequence[Finding],
    stack: bool = False,
    endings: Sequence[Ending] = (),
    steps: Steps | None = None,
) -> str:
    """Returns the report of the host syncs as plain text: tables with what to write instead below
    each row, the meaning of the words, and the sum. `stack` shows every line of a library on the
    way to a wait, and not only the innermost."""
    blocks = []
    if races := race_lines(timeline):
        blocks.append("\n".join(["Races:", *races]))
    for heading, part in parts(findings, steps):
        blocks.append("\n".join([*heading, _aligned(part, stack)]))
    if findings:
        blocks.append("\n".join(meanings(findings)))
    if allowed:
        blocks.append(f"Allowed:\n{_aligned(allowed, stack, advice=False)}")
    return "\n\n".join([*blocks, "\n".join(sentences(timeline, findings, allowed, endings, steps))])


def _aligned(findings: Sequence[Finding], stack: bool, advice: bool = True) -> str:
    headings, rows = table(findings, stack, advice)
    first, *lines = align(headings, [row for row, _ in rows], len(FIGURES)).splitlines()
    below = [(line, *indented(under, WIDTH)) for line, (_, under) in zip(lines, rows, strict=True)]
    return "\n".join([first, *(one for some in below for one in some)])


def parts(
    findings: Sequence[Finding], steps: Steps | None
) -> list[tuple[list[str], list[Finding]]]:
    """Returns the tables to show, each as its heading's lines and its findings: first the findings
    of the steps, then those of set-up."""
    of_steps = [one for one in findings if not one.setup]
    of_setup = [one for one in findings if one.setup]
    found: list[tuple[list[str], list[Finding]]] = [([], of_steps)] if of_steps else []
    if of_setup and steps is not None and steps.line is not None:
        found.append(([f"Set-up, before {_passes(steps.skip)} of {steps.line}"], of_setup))
    return [([printable(line) for line in heading], part) for heading, part in found]


def _passes(skip: int) -> str:
    return "the second pass" if skip == 1 else f"pass {skip + 1:,}"


def race_lines(timeline: TimelineData) -> list[str]:
    """Returns a sentence for each race that was proved, with both lines and how many times it
    occurred."""
    lines = []
    for race, times in races_of(timeline).items():
        often = "" if times == 1 else f" ({times:,} times)"
        lines.append(printable(f"  {race.message}{often}"))
    return lines


def table(
    findings: Sequence[Finding], stack: bool = False, advice: bool = True
) -> tuple[Row, list[tuple[Row, tuple[str, ...]]]]:
    """Returns headings, and rows each with the lines below it: where a library or PyTorch waits,
    whose gradient it is, and with `advice` what to write instead. Threads are named if not only the
    recording thread waited. Findings that would look alike are one row."""
    threads = any(finding.thread for finding in findings)
    headings = (*FIGURES, "waits for", *(["thread"] if threads else []), "line")
    rows = []
    for shown in folded(findings, stack, advice):
        finding = shown.finding
        row = (
            format_time(finding.held),
            format_time(finding.worst),
            f"{finding.count:,}",
            format_time(finding.idle),
            finding.what,
            *([printable(finding.thread or "")] if threads else []),
            shown.line,
        )
        rows.append((row, shown.below))
    return headings, rows


def folded(findings: Sequence[Finding], stack: bool, advice: bool) -> list[ShownFinding]:
    """Returns the table's rows: findings that look alike are added up in one row. A line is shown
    with its path if another file of that name has the same line."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.source is not None:
            files[str(finding.source)].add(finding.source.file)
    found: dict[tuple, ShownFinding] = {}
    for finding in findings:
        source = finding.source
        line = str(source or "(no line known)")
        if source is not None and len(files[line]) > 1:
            line = f"{portable_path(source.file)}:{source.line}: {source.text}"
        below = tuple(map(printable, _below(finding, stack, advice)))
        key = (finding.kind, finding.thread, line, below)
        known = found.get(key)
        both = finding if known is None else _sum_of(known.finding, finding)
        found[key] = ShownFinding(both, printable(line), below)
    return [*found.values()]


def _sum_of(first: Finding, second: Finding) -> Finding:
    return replace(
        first,
        count=first.count + second.count,
        held=first.held + second.held,
        worst=max(first.worst, second.worst),
        idle=first.idle + second.idle,
    )


def _below(finding: Finding, stack: bool, advice: bool) -> list[str]:
    """Returns the lines shown below a finding."""
    lines: list[str] = []
    source = finding.source
    if source is not None:
        inside = source.inside
        if not stack:
            of_pytorch = inside[-1:] if inside and is_of_pytorch(inside[-1].file) else ()
            inside = (*source.outside_pytorch.inside[-1:], *of_pytorch)
        lines += [f"in {line.in_library}" for line in inside]
        lines += [f"for the gradient of {source.forward}"] if source.forward else []
    if finding.key:
        lines.append(finding.key)
    if advice:
        lines.append(f"instead: {finding.instead}" if finding.instead else unknown(finding))
    return lines


def unknown(finding: Finding) -> str:
    """Returns a sentence about a wait for which no alternative is known."""
    name = finding.call or finding.operator
    who = f"{name} waits" if name else f"this waits for {finding.what}"
    return f"{who}, and debubble knows no way around it"


def indented(lines: Iterable[str], width: int) -> list[str]:
    """Returns the lines shown below a row, each broken at `width` characters."""
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line, max(width, 40), initial_indent=" " * 4, subsequent_indent=" " * 8
        )
    ]


def meanings(findings: Sequence[Finding]) -> list[str]:
    """Returns a sentence that explains each kind of wait among the findings, and then one for the
    word "idle"."""
    said = dict.fromkeys(f"{finding.what}: {finding.meaning}" for finding in findings)
    return [*said, IDLE] if said else []


IDLE = "idle: the time for which the device then had no work."


def sentences(
    timeline: TimelineData,
    findings: Sequence[Finding],
    allowed: Sequence[Finding],
    endings: Sequence[Ending] = (),
    steps: Steps | None = None,
) -> list[str]:
    """Returns the sentences at the end of the report: the sum, the allowed syncs, and the reasons
    why the report may be incomplete."""
    used_the_device = bool(timeline.events)
    said = [f"{ending.sentence}." for ending in endings]
    if endings:
        said.append("Code that did not run because of that is not in this report.")
    races = len(races_of(timeline))
    if races:
        said.append(
            f"{'One race was' if races == 1 else f'{races:,} races were'} proved: results may be "
            "wrong."
        )
    if findings:
        said.append(f"The host was held {_sum(findings)} ({timeline.label}).")
        said += _without_a_loop(steps)
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
    if names := timeline.unmeasured:
        some = (
            "1 operator of this run was"
            if len(names) == 1
            else f"{len(names)} operators of this run were"
        )
        more = len(names) - MOST_NAMES
        listed = ", ".join([*names[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])])
        said.append(f"{some} never measured on a GPU: {listed}.")
    if timeline.cut_off:
        said.append(
            "The recording was full before the end, so later waits are not listed: record fewer "
            "steps, or raise the limit."
        )
    return [*map(printable, said)]


def _without_a_loop(steps: Steps | None) -> list[str]:
    if steps is None or steps.until is not None or not steps.skip:
        return []
    often = "two passes" if steps.skip == 1 else f"more than {steps.skip:,} passes"
    return [
        f"Set-up is not told apart from steps: no loop used the device in {often} before the last "
        "wait."
    ]


MOST_NAMES = 12


def _sum(findings: Sequence[Finding]) -> str:
    """Returns a sum such as `12 times at 3 lines, for 1.20 ms in all`."""
    times = sum(finding.count for finding in findings)
    lines = len({finding.source and finding.source[:2] for finding in findings})
    held = format_time(sum(finding.held for finding in findings))
    return (
        f"{'once' if times == 1 else f'{times:,} times'} at "
        f"{'one line' if lines == 1 else f'{lines:,} lines'}, for {held} in all"
    )
