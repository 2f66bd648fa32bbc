"""Writes findings in the formats that code hosts show beside the lines: SARIF and GitHub's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from ..contract.source_line import SourceLine
from ..timeline.event import Hazard
from ..timeline.trace_file import portable_path
from .ending import Ending
from .findings import RACES, WORDS, Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ESCAPED = {"%": "%25", "\r": "%0D", "\n": "%0A"}
NOT_RUN = "code that did not run because of that is not among the results."
IN_A_PROPERTY = {**ESCAPED, ":": "%3A", ",": "%2C"}


def sarif(
    findings: Iterable[Finding], endings: Sequence[Ending] = (), races: Sequence[Hazard] = ()
) -> dict[str, object]:
    """Returns a SARIF 2.1.0 log with a result for each finding and race whose line is known, and a
    notification for each exception that ended the run, or a thread of it, early."""
    rules: list[dict[str, object]] = [
        {
            "id": kind,
            "shortDescription": {"text": f"The host waits for {what}."},
            "help": {"text": meaning},
        }
        for kind, (what, meaning) in WORDS.items()
    ]
    rules += [
        {"id": kind, "shortDescription": {"text": text}, "help": {"text": text}}
        for kind, text in RACES.items()
    ]
    driver = {"name": "debubble", "rules": rules}
    results = [_race(race) for race in races if race.second or race.first]
    results += [_result(finding) for finding in findings if finding.source is not None]
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not endings,
                "toolExecutionNotifications": [_notification(ending) for ending in endings],
            }
        ],
        "columnKind": "utf16CodeUnits",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _notification(ending: Ending) -> dict[str, object]:
    return {
        "level": "error",
        "message": {"text": f"{ending.sentence}: {NOT_RUN}"},
        "locations": [_location(ending.source)] if ending.source else [],
        "exception": {"kind": ending.kind, "message": ending.message},
    }


def _race(race: Hazard) -> dict[str, object]:
    lines = [line for line in (race.second, race.first) if line is not None]
    places = [(portable_path(line.file), line.function, line.text) for line in lines]
    return {
        "ruleId": race.kind,
        "level": "error",
        "message": {"text": race.message},
        "locations": [_location(lines[0])],
        "relatedLocations": [_location(line) for line in lines[1:]],
        "partialFingerprints": {"debubble/v1": "|".join((race.kind, *map(str, places)))},
    }


def _result(finding: Finding) -> dict[str, object]:
    assert finding.source is not None
    result: dict[str, object] = {
        "ruleId": finding.kind,
        "level": "warning" if finding.is_a_wait else "note",
        "message": {"text": message(finding)},
        "locations": [_location(finding.source)],
        "partialFingerprints": {"debubble/v1": "|".join(map(str, identity(finding)))},
    }
    if finding.setup:
        result["properties"] = {"setup": True}
    if finding.source.inside:
        frames = (*reversed(finding.source.inside), finding.source)
        result["stacks"] = [
            {
                "message": {"text": "from the wait up to your line"},
                "frames": [{"location": _location(line)} for line in frames],
            }
        ]
    return result


def _location(line: SourceLine) -> dict[str, object]:
    region: dict[str, object] = {"startLine": max(line.line, 1)}
    if line.column is not None:
        region["startColumn"] = line.column + 1
    if line.text:
        region["snippet"] = {"text": line.text}
    file = {"uri": quote(os.fsencode(portable_path(line.file)))}
    return {"physicalLocation": {"artifactLocation": file, "region": region}}


def github(
    findings: Iterable[Finding], endings: Sequence[Ending] = (), races: Sequence[Hazard] = ()
) -> list[str]:
    """Returns the commands that a step of a GitHub Action prints: one for each finding with a line,
    one for each race, and one for each exception that ended the run, or a thread of it, early."""
    lines = [_command("error", "the run ended early", e.source, f"{e.sentence}.") for e in endings]
    lines += [
        _command("error", "a race", race.second or race.first, race.message) for race in races
    ]
    for finding in findings:
        if finding.source is None:
            continue
        level = "warning" if finding.is_a_wait else "notice"
        title = f"the host waits for {finding.what}"
        lines.append(_command(level, title, finding.source, message(finding)))
    return lines


def _command(level: str, title: str, source: SourceLine | None, text: str) -> str:
    place = {"file": portable_path(source.file), "line": str(source.line)} if source else {}
    properties = {**place, "title": title}
    said = ",".join(f"{k}={_escaped(v, IN_A_PROPERTY)}" for k, v in properties.items())
    return f"::{level} {said}::{_escaped(text, ESCAPED)}"


def message(finding: Finding) -> str:
    """Returns a finding's text: what it waits for, how often, where in a library, and advice."""
    times = "once" if finding.count == 1 else f"{finding.count:,} times"
    inside = ""
    if finding.source is not None and finding.source.inside:
        line = finding.source.inside[-1]
        inside = f", in {portable_path(line.file)}:{line.line} ({line.text})"
    instead = f" Instead: {finding.instead}" if finding.instead else ""
    setup = " before the steps" if finding.setup else ""
    return f"Waits for {finding.what}, {times}{setup}{inside}.{instead}"


def identity(finding: Finding) -> tuple[str, ...]:
    """Returns a key that finds the same finding in another revision. It leaves out the line number,
    which changes."""
    lines = (finding.source, finding.innermost)
    places = [
        (portable_path(line.file), line.function, line.text) if line else ("", "", "")
        for line in lines
    ]
    return (finding.kind, *places[0], *places[1])


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(letter, letter) for letter in text)
