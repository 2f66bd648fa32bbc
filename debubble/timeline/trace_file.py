"""Timelines as JSON files: columns instead of rows, and every name and source line written once.

Source lines keep their text, so that a recording made on a GPU host can be read anywhere; their
paths are cut so that they say nothing about that host.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Generic, NotRequired, TypedDict, TypeGuard, TypeVar, get_args

from ..contract.source_line import SourceLine, is_notebook_cell
from .data import TimelineData
from .event import COPY_KINDS, HOST_KINDS, HOST_LANE, Event, EventKind, Hazard, HazardKind

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
OPTIONAL_COLUMNS = {"pageable": False, "allowed": False, "thread": None}
"""What stands in every row of a column that is left out, as in files older than the column."""
NAMES = ("kind", "name", "lane", "copy_kind", "thread")
"""Columns of names: each name is written once, and a row holds its number."""
REPOSITORY = Path(__file__).resolve().parents[2]
MOST_BYTES = 256 * 2**20
"""Of a file that is read: several million events."""
MOST_CHARACTERS = 10_000
"""Of a name or of a text. Of C++ templates come names of some thousand."""
LONGEST_TIME = 1e12
"""Microseconds: eleven days, in which each nanosecond is still a number of its own."""


class TraceFileError(ValueError):
    """A file that holds no timeline; the message names the file and what is wrong with it."""


class SavedTimeline(TypedDict):
    """The object of a file. `sources` are file, line, function and text; `hazards` are kind,
    message and the numbers of two sources; `events` are columns of one length."""

    format: str
    version: int
    accelerator: str
    description: str
    modelled: bool
    time_unit: str
    cut_off: NotRequired[bool]
    names: list[str]
    sources: list[tuple[str, int, str, str]]
    hazards: list[tuple[HazardKind, str, int | None, int | None]]
    events: dict[str, list[Any]]


Seen = TypeVar("Seen", bound=Hashable)
Entry = TypeVar("Entry")


class Interned(Generic[Seen]):
    """Values in the order in which they were first seen, each with its number."""

    def __init__(self) -> None:
        self.values: list[Seen] = []
        self._index: dict[Seen, int] = {}

    def number(self, value: Seen) -> int:
        if value not in self._index:
            self._index[value] = len(self.values)
            self.values.append(value)
        return self._index[value]

    def __call__(self, value: Seen | None) -> int | None:
        """None stays None."""
        return None if value is None else self.number(value)


def save_timeline(timeline: TimelineData, path: str | PathLike[str]) -> None:
    write_whole(encode_timeline(timeline), path)


def write_whole(text: str, path: str | PathLike[str]) -> None:
    """Write through a temporary file, so that `path` is either whole or as it was."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def load_timeline(path: str | PathLike[str]) -> TimelineData:
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TraceFileError(
                f"{path} is too large for a timeline: {MOST_BYTES // 2**20} MiB are read at most."
            )
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise TraceFileError(f"{path} is not a debubble timeline: it is not text.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceFileError(f"{path} can't be read: {reason}.") from None
    return decode_timeline(text, path)


def encode_timeline(timeline: TimelineData) -> str:
    """One JSON object, a line for each column."""
    names, sources = Interned[str](), Interned[SourceLine]()
    columns: dict[str, list[object]] = {
        column: [] for column in (*EVENT_COLUMNS, *needed_columns(timeline.events))
    }
    for event in timeline.events:
        for column, values in columns.items():
            value = getattr(event, column)
            if column in NAMES:
                value = names(value and value[:MOST_CHARACTERS])
            elif column == "source":
                value = sources(value)
            elif column in ("start", "duration"):
                value = round(value, 3)
            values.append(value)
    hazards = [
        [hazard.kind, hazard.message, sources(hazard.first), sources(hazard.second)]
        for hazard in timeline.hazards
    ]
    parts = {
        "format": FORMAT,
        "version": VERSION,
        "accelerator": timeline.accelerator,
        "description": timeline.description,
        "modelled": timeline.modelled,
        "time_unit": "us",
        **({"cut_off": True} if timeline.cut_off else {}),
        "names": names.values,
        "sources": [
            [
                portable_path(source.file),
                source.line,
                source.function,
                source.text[:MOST_CHARACTERS],
            ]
            for source in sources.values
        ],
        "hazards": hazards,
    }
    lines = [f"{json.dumps(key)}: {compact(value)}" for key, value in parts.items()]
    rows = ",\n".join(f"  {json.dumps(name)}: {compact(v)}" for name, v in columns.items())
    lines.append(f'"events": {{\n{rows}\n}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def needed_columns(events: Iterable[Event]) -> list[str]:
    """The optional columns that say more than what they are left out for."""
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
    """`path` is for the messages only."""
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
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)[:100]
        raise TraceFileError(f"{path} is a damaged debubble timeline: {what}.") from None


def is_ours(data: object) -> TypeGuard[SavedTimeline]:
    """By what it says of itself; whether that is so is found out when it is read."""
    return isinstance(data, dict) and data.get("format") == FORMAT


def build_timeline(data: SavedTimeline) -> TimelineData:
    rows = data["events"]
    rows = {c: [nothing] * len(rows["kind"]) for c, nothing in OPTIONAL_COLUMNS.items()} | rows
    names = [checked_text(name) for name in data["names"]]
    check_whole([line for _, line, _, _ in data["sources"]], 2**31, "the line {} is no line number")
    sources = [
        SourceLine(checked_text(file), line, checked_text(function), checked_text(code))
        for file, line, function, code in data["sources"]
    ]
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
    )


def pick(table: Sequence[Entry], indices: Sequence[int | None]) -> list[Entry | None]:
    """The entries with these numbers; None stays None."""
    says = f"index {{}} points outside a table of {len(table)}"
    check_whole([index for index in indices if index is not None], len(table), says)
    return [None if index is None else table[index] for index in indices]


def check_columns(columns: dict[str, list[Any]]) -> None:
    """ValueError for what no event can be, naming the first value that is wrong."""
    of_time = f"is not a number of microseconds, at most {LONGEST_TIME:g}"
    check_numbers(columns["start"], -LONGEST_TIME, LONGEST_TIME, f"the time {{}} {of_time}")
    check_numbers(columns["duration"], 0, LONGEST_TIME, f"the time {{}} {of_time} and at least 0")
    check_whole(columns["bytes"], 2**63, "the number of bytes {} is not a whole one from 0 on")
    for name in ("pageable", "allowed"):
        checked_flags(columns[name])
    kinds, lanes = columns["kind"], columns["lane"]
    for kind, copy_kind, lane in dict.fromkeys(
        zip(kinds, columns["copy_kind"], lanes, strict=True)
    ):
        check_kind(kind, copy_kind, lane)
    if None in columns["name"]:
        raise ValueError("it holds an event without a name")
    launches = [launch for launch in columns["launched_by"] if launch is not None]
    check_whole(launches, len(kinds), f"an event is launched by event {{}} of {len(kinds)}")
    for launch in set(launches):
        if kinds[launch] not in HOST_KINDS:
            raise ValueError(f"an event is launched by event {launch}, which the device ran")


def check_kind(kind: str, copy_kind: str | None, lane: str) -> None:
    if kind not in get_args(EventKind):
        raise ValueError(f"it holds an event of the unknown kind {shown(kind)}")
    if kind == "copy" and copy_kind not in COPY_KINDS:
        raise ValueError(f"it holds a copy of the unknown kind {shown(copy_kind)}")
    if kind != "copy" and copy_kind is not None:
        raise ValueError(f"it holds a {kind} with the kind of a copy, {shown(copy_kind)}")
    if lane is None or (kind in HOST_KINDS) != (lane == HOST_LANE):
        raise ValueError(f"it holds a {kind} on the lane {shown(lane)}")


def check_numbers(values: Sequence[Any], low: float, high: float, says: str) -> None:
    """ValueError with `says` unless all are numbers from `low` to `high`."""
    if not set(map(type, values)) <= {int, float} or not all(
        low <= value <= high for value in values
    ):
        wrong = (v for v in values if type(v) not in (int, float) or not low <= v <= high)
        raise ValueError(says.format(shown(next(wrong))))


def check_whole(values: Sequence[Any], end: int, says: str) -> None:
    """ValueError with `says` unless all are whole numbers from 0 to below `end`."""
    if not set(map(type, values)) <= {int}:
        raise ValueError(says.format(shown(next(v for v in values if type(v) is not int))))
    check_numbers(values, 0, end - 1, says)


def checked_flags(values: Sequence[bool]) -> Sequence[bool]:
    for value in {type(value): value for value in values}.values():
        if not isinstance(value, bool):
            raise ValueError(f"the flag {shown(value)} is neither true nor false")
    return values


def checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the text {shown(value)} is none")
    if len(value) > MOST_CHARACTERS:
        raise ValueError(f"a text of {len(value):,} characters: {MOST_CHARACTERS:,} are the most")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the text {shown(value)} holds half a character") from None
    return value


def checked_hazard(kind: HazardKind) -> HazardKind:
    if kind not in get_args(HazardKind):
        raise ValueError(f"it holds a hazard of the unknown kind {shown(kind)}")
    return kind


def shown(value: object) -> str:
    """As it stands in a message, however long it is."""
    try:
        text = ascii(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits.
        return "of thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


def portable_path(file: str) -> str:
    """The file from the working directory, the repository or site-packages on; never absolute."""
    if is_notebook_cell(file):
        return f"ipykernel_/{PurePath(file).name}"
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
