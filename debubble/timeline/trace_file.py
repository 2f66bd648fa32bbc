"""Timelines as JSON files: columns instead of rows, and every name and source line written once.

Source lines keep their text, so that a recording made on a GPU host can be read anywhere; their
paths are cut so that they reveal nothing about that host.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Generic, NotRequired, TypedDict, TypeGuard, TypeVar

from ..contract.python.garbage import no_collection
from ..contract.source_line import SourceLine, cell_number, is_notebook_cell
from .data import TimelineData
from .event import Event, Hazard, HazardKind, Step
from .trace_checks import (
    LONGEST_TIME,
    MOST_CHARACTERS,
    check_columns,
    check_numbers,
    checked_flags,
    checked_hazard,
    checked_text,
    checked_whole,
    shown,
)

FORMAT = "debubble timeline"
VERSION = 1
EVENT_COLUMNS = (
    "kind",
    "name",
    "lane",
    "start",
    "duration",
    "source",
    "copy_kind",
    "bytes",
    "launched_by",
)
OPTIONAL_COLUMNS = {
    "pageable": False,
    "allowed": False,
    "thread": None,
    "call": None,
    "operator": None,
}
"""The value of every row in a column that is left out, as in files older than the column."""
NAMES = ("kind", "name", "lane", "copy_kind", "thread", "call", "operator")
"""Columns of names: each name is written once, and a row holds its number."""
REPOSITORY = Path(__file__).resolve().parents[2]
BYTES_AT_A_TIME = 2**20
"""The bytes of a file that are read at a time: a larger buffer would be allocated as a whole for
the smallest file."""
MOST_INSIDES = 1_000_000
"""The most lines inside other lines that a file may hold, and the most inside the lines whose
gradients its lines compute."""
MOST_BYTES = 256 * 2**20
"""The most bytes of a file that is read: enough for several million events."""
SMALL = 2**20
"""Characters: a text of this size is parsed whatever it holds, which takes some ten MB."""
MOST = {"lists": ("[", 200_000, 8), "objects": ("{", 20_000, 64), "texts": ('"', 400_000, 8)}
"""Limits of a file, by kind: the character that a list, an object or a text begins with, how many
of them any file may hold, and the least number of characters for each of them in a large file.

A list, an object or a key takes up to 260 bytes of memory for 2 to 9 characters of a file. Our
files have a list for each source line and each column, and two objects. Characters in names and in
lines of code count as well; they are few beside the events."""


class TraceFileError(ValueError):
    """A file that holds no timeline; the message names the file and what is wrong with it."""


class SavedTimeline(TypedDict):
    """The JSON object of a file. `sources` are file, line, function and text of each source line;
    `source_columns` the column in which each begins, `source_insides` the numbers of the lines
    inside it, `source_forwards` the number of the line whose gradient it computes; `hazards` are
    kind, message and the numbers of two sources; `events` are columns of one length."""

    format: str
    version: int
    accelerator: str
    description: str
    modelled: bool
    time_unit: str
    cut_off: NotRequired[bool]
    unmeasured: NotRequired[list[str]]
    steps: NotRequired[list[tuple[str, float, float]]]
    names: list[str]
    sources: list[tuple[str, int, str, str]]
    source_columns: NotRequired[list[int | None]]
    source_insides: NotRequired[list[list[int]]]
    source_forwards: NotRequired[list[int | None]]
    hazards: list[tuple[HazardKind, str, int | None, int | None]]
    events: dict[str, list[Any]]


Seen = TypeVar("Seen", bound=Hashable)
Entry = TypeVar("Entry")


class Interned(Generic[Seen]):
    """A table of different values, each with its number, in the order in which they were first
    seen."""

    def __init__(self) -> None:
        self.values: list[Seen] = []
        self._index: dict[Seen, int] = {}
        self._known: dict[int, tuple[Seen, int]] = {}
        """Each value and its number by the value's `id`, because comparing a source line with
        thousands of lines inside it takes long."""

    def number(self, value: Seen) -> int:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        number = self._index.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        self._known[id(value)] = value, number
        return number

    def __call__(self, value: Seen | None) -> int | None:
        """Returns the number of `value`, which is added if it is new; None for None."""
        return None if value is None else self.number(value)


def save_timeline(timeline: TimelineData, path: str | PathLike[str]) -> None:
    write_whole(encode_timeline(timeline), path)


def write_whole(text: str | Iterable[str], path: str | PathLike[str]) -> None:
    """Writes a text or its parts through a temporary file: `path` is either whole or as it was."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines([text] if isinstance(text, str) else text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def load_timeline(path: str | PathLike[str]) -> TimelineData:
    try:
        content = bytearray()
        with open(path, "rb") as file:
            while len(content) <= MOST_BYTES and (more := file.read(BYTES_AT_A_TIME)):
                content += more
        if len(content) > MOST_BYTES:
            raise TraceFileError(
                f"{path} is too large for a timeline: {MOST_BYTES // 2**20} MiB are read at most."
            )
        text = content.decode("utf-8")
        del content
    except UnicodeDecodeError:
        raise TraceFileError(f"{path} is not a debubble timeline: it is not text.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceFileError(f"{path} can't be read: {reason}.") from None
    return decode_timeline(text, path)


def encode_timeline(timeline: TimelineData) -> str:
    """Returns the timeline as one JSON object, with a line for each column."""
    names, sources = Interned[str](), Interned[SourceLine]()
    columns: dict[str, list[object]] = {
        column: [] for column in (*EVENT_COLUMNS, *needed_columns(timeline.events))
    }
    for event in timeline.events:
        for column, values in columns.items():
            value = getattr(event, column)
            if column in NAMES:
                value = names(value and written(value))
            elif column == "source":
                value = sources(value)
            elif column in ("start", "duration"):
                value = round(value, 3)
            values.append(value)
    hazards = [
        [hazard.kind, written(hazard.message), sources(hazard.first), sources(hazard.second)]
        for hazard in timeline.hazards
    ]
    insides, forwards = numbers_of_others(sources)
    parts = {
        "format": FORMAT,
        "version": VERSION,
        "accelerator": written(timeline.accelerator),
        "description": written(timeline.description),
        "modelled": timeline.modelled,
        "time_unit": "us",
        **({"cut_off": True} if timeline.cut_off else {}),
        **({"unmeasured": [*map(written, timeline.unmeasured)]} if timeline.unmeasured else {}),
        **({"steps": written_steps(timeline.steps)} if timeline.steps else {}),
        "names": names.values,
        "sources": [
            [
                written(portable_path(source.file)),
                source.line,
                written(source.function),
                written(source.text),
            ]
            for source in sources.values
        ],
        "source_columns": [source.column for source in sources.values],
        **({"source_insides": insides} if any(insides) else {}),
        **({"source_forwards": forwards} if {*forwards} > {None} else {}),
        "hazards": hazards,
    }
    lines = [f"{json.dumps(key)}: {compact(value)}" for key, value in parts.items()]
    rows = ",\n".join(f"  {json.dumps(name)}: {compact(v)}" for name, v in columns.items())
    lines.append(f'"events": {{\n{rows}\n}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def written_steps(steps: Iterable[Step]) -> list[list[object]]:
    return [[written(step.name), round(step.start, 3), round(step.end, 3)] for step in steps]


def numbers_of_others(sources: Interned[SourceLine]) -> tuple[list[list[int]], list[int | None]]:
    """Returns for each source the numbers of the lines inside it, and the number of its forward.
    Adds these lines to `sources` if they are new."""
    insides: list[list[int]] = []
    forwards: list[int | None] = []
    while len(insides) < len(sources.values):
        source = sources.values[len(insides)]
        insides.append([sources.number(line) for line in source.inside])
        forwards.append(sources(source.forward))
    return insides, forwards


def written(text: str) -> str:
    """Returns a text that `load` accepts: cut to MOST_CHARACTERS, with "?" for each half of a
    character, as Python has them in the name of a file that is not UTF-8."""
    return text[:MOST_CHARACTERS].encode(errors="replace").decode()


def needed_columns(events: Iterable[Event]) -> list[str]:
    """Returns the optional columns with a value that differs from the default."""
    said = {
        column
        for event in events
        for column, nothing in OPTIONAL_COLUMNS.items()
        if getattr(event, column) != nothing
    }
    return [column for column in OPTIONAL_COLUMNS if column in said]


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


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


def portable_path(file: str) -> str:
    """Returns the file's path from the working directory, the repository or site-packages on, else
    only its name; never an absolute path."""
    if is_notebook_cell(file):
        cell = cell_number(file)
        return f"ipykernel_/{PurePath(file).name if cell is None else f'cell_{cell}.py'}"
    path = PurePath(file)
    if not path.is_absolute():
        return path.as_posix()
    for root in (Path.cwd(), REPOSITORY):
        with suppress(ValueError):
            return path.relative_to(root).as_posix()
    parts = path.parts
    if "site-packages" in parts:
        return PurePath(*parts[parts.index("site-packages") + 1 :]).as_posix()
    return path.name
