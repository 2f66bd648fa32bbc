"""Builds a timeline of the text of a file, each of whose values is checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeGuard, TypeVar

from ..contract.python.garbage import no_collection
from ..contract.source_line import SourceLine
from .data import TimelineData
from .event import Event, Hazard, Step
from .trace_checks import (
    LONGEST_TIME,
    check_columns,
    check_numbers,
    checked_flags,
    checked_hazard,
    checked_text,
    checked_whole,
    shown,
)
from .trace_format import (
    EVENT_COLUMNS,
    FORMAT,
    NAMES,
    OPTIONAL_COLUMNS,
    VERSION,
    SavedTimeline,
    TraceFileError,
)

MOST_INSIDES = 1_000_000
"""The most lines inside other lines that a file may hold, and the most inside the lines whose
gradients its lines compute."""
SMALL = 2**20
"""Characters: a text of this size is parsed whatever it holds, which takes some ten MB."""
MOST = {"lists": ("[", 200_000, 8), "objects": ("{", 20_000, 64), "texts": ('"', 400_000, 8)}
"""Limits of a file, by kind: the character that a list, an object or a text begins with, how many
of them any file may hold, and the least number of characters for each of them in a large file.

A list, an object or a key takes up to 260 bytes of memory for 2 to 9 characters of a file. Our
files have a list for each source line and each column, and two objects. Characters in names and in
lines of code count as well; they are few beside the events."""
Entry = TypeVar("Entry")


def decode_timeline(text: str, path: str | PathLike[str]) -> TimelineData:
    """Returns the timeline in `text`. Raises TraceFileError, in which `path` names the file."""
    # Its objects stay alive: looking for garbage among them takes longer than making them.
    with no_collection():
        return build_file(text, path)


def build_file(text: str, path: str | PathLike[str]) -> TimelineData:
    check_size(text, path)
    try:
        data = json.loads(text)
    except ValueError as error:
        opening = text.lstrip()[:200]
        if FORMAT in opening:
            where = (
                f" at character {error.pos:,}" if isinstance(error, json.JSONDecodeError) else ""
            )
            raise TraceFileError(
                f"{path} is cut off or damaged{where}: record and save it again."
            ) from None
        reason = "it is empty" if not opening else "it is not JSON"
        raise TraceFileError(f"{path} is not a debubble timeline: {reason}.") from None
    except RecursionError:
        raise TraceFileError(f"{path} is not a debubble timeline: it nests too deep.") from None
    if not is_ours(data):
        kind = (
            "a Chrome trace" if isinstance(data, dict) and "traceEvents" in data else "other JSON"
        )
        raise TraceFileError(
            f"{path} is not a debubble timeline but {kind}: timeline.save() writes one."
        )
    version = data.get("version")
    if version != VERSION or isinstance(version, bool):
        raise TraceFileError(
            f"{path} is version {shown(version)} of the format, this debubble reads version "
            f"{VERSION}: update debubble, or record it again."
        )
    try:
        return build_timeline(data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)[:200]
        raise TraceFileError(f"{path} is a damaged debubble timeline: {what}.") from None


def check_size(text: str, path: str | PathLike[str]) -> None:
    """Raises TraceFileError for a text that would take far more memory than its size, or no end of
    time, to parse."""
    if len(text) <= SMALL:
        return
    if FORMAT not in text:
        kind = "a Chrome trace" if '"traceEvents"' in text else "another file"
        raise TraceFileError(
            f"{path} is not a debubble timeline but {kind}: timeline.save() writes one."
        )
    for what, (opening, always, characters) in MOST.items():
        most = always + len(text) // characters
        if text.count(opening) > most:
            raise TraceFileError(
                f"{path} is a damaged debubble timeline: it holds more {what} than the "
                f"{most:,} that a file of its size may have."
            )


def is_ours(data: object) -> TypeGuard[SavedTimeline]:
    """True if `data` is an object that names our format. Only reading the rest shows if it is
    one."""
    return isinstance(data, dict) and data.get("format") == FORMAT


def build_timeline(data: SavedTimeline) -> TimelineData:
    rows = data["events"]
    rows = {c: [nothing] * len(rows["kind"]) for c, nothing in OPTIONAL_COLUMNS.items()} | rows
    names = [checked_text(name) for name in data["names"]]
    sources = build_sources(data)
    look_up: dict[str, Sequence[object]] = {column: names for column in NAMES}
    look_up["source"] = sources
    columns: dict[str, list[Any]] = {}
    for column in (*EVENT_COLUMNS, *OPTIONAL_COLUMNS):
        table = look_up.get(column)
        columns[column] = rows[column] if table is None else pick(table, rows[column])
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("its event columns differ in length")
    check_columns(columns)
    events = [Event(*row) for row in zip(*columns.values(), strict=True)]
    hazards = [
        Hazard(checked_hazard(kind), checked_text(message), *pick(sources, (first, second)))
        for kind, message, first, second in data["hazards"]
    ]
    modelled, cut_off = checked_flags([data["modelled"], data.get("cut_off", False)])
    return TimelineData(
        accelerator=checked_text(data["accelerator"]),
        description=checked_text(data["description"]),
        modelled=modelled,
        events=events,
        hazards=hazards,
        cut_off=cut_off,
        unmeasured=[checked_text(name) for name in data.get("unmeasured", [])],
        steps=build_steps(data.get("steps", [])),
    )


def build_steps(rows: Sequence[tuple[str, float, float]]) -> list[Step]:
    """Returns the named steps of a saved timeline. Raises ValueError for times that no step can
    have."""
    for _, start, end in rows:
        says = f"the time {{}} of a step is not a number of microseconds up to {LONGEST_TIME:g}"
        check_numbers([start, end], -LONGEST_TIME, LONGEST_TIME, says)
        if start > end:
            raise ValueError(f"a step begins at {start:g} and ends before, at {end:g}")
    return [Step(checked_text(name), start, end) for name, start, end in rows]


def build_sources(data: SavedTimeline) -> list[SourceLine]:
    """Returns the source lines of a saved timeline, with their columns and the lines inside them,
    which older files lack. Raises ValueError for values that no source line can have."""
    rows = data["sources"]
    checked_whole([line for _, line, _, _ in rows], 2**31, "the line {} is no line number")
    columns = data.get("source_columns", [None] * len(rows))
    none_inside: list[list[int]] = [[] for _ in rows]
    insides = data.get("source_insides", none_inside)
    no_forward: list[int | None] = [None for _ in rows]
    forwards = data.get("source_forwards", no_forward)
    if not len(columns) == len(insides) == len(forwards) == len(rows):
        raise ValueError("its source columns differ in length")
    known = [column for column in columns if column is not None]
    checked_whole(known, 2**31, "the column {} is no column of a line")
    plain = [
        SourceLine(checked_text(file), line, checked_text(function), checked_text(code), column)
        for (file, line, function, code), column in zip(rows, columns, strict=True)
    ]
    if sum(map(len, insides)) > MOST_INSIDES:
        raise ValueError(f"it holds more than {MOST_INSIDES:,} lines inside others")
    called = [
        line._replace(inside=tuple(checked_inside(plain, inside))) if inside else line
        for line, inside in zip(plain, insides, strict=True)
    ]
    of_forward = pick(called, forwards)
    if sum(len(line.inside) for line in of_forward if line) > MOST_INSIDES:
        raise ValueError(f"its gradients are of more than {MOST_INSIDES:,} lines inside others")
    return [
        line if forward is None else line._replace(forward=forward)
        for line, forward in zip(called, of_forward, strict=True)
    ]


def checked_inside(sources: Sequence[SourceLine], inside: Sequence[int]) -> list[SourceLine]:
    says = f"a line inside points outside a table of {len(sources)}"
    return [sources[number] for number in checked_whole(inside, len(sources), says)]


def pick(table: Sequence[Entry], indices: Sequence[int | None]) -> list[Entry | None]:
    """Returns the entries of `table` at these indices, with None for None. Raises ValueError for an
    index outside the table."""
    says = f"index {{}} points outside a table of {len(table)}"
    checked_whole([index for index in indices if index is not None], len(table), says)
    return [None if index is None else table[index] for index in indices]
