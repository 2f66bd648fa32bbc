"""Timelines as JSON files: columns instead of rows, and every name and source line written once.

Source lines keep their text, so that a recording made on a GPU host can be read anywhere; their
paths are cut so that they reveal nothing about that host.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Hashable, Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path, PurePath
from typing import Generic, TypeVar

from ..contract.source_line import SourceLine, cell_number, is_notebook_cell
from .data import TimelineData
from .event import Event, Step
from .trace_checks import MOST_CHARACTERS
from .trace_format import EVENT_COLUMNS, FORMAT, NAMES, OPTIONAL_COLUMNS, VERSION, TraceFileError
from .trace_reading import decode_timeline

REPOSITORY = Path(__file__).resolve().parents[2]
BYTES_AT_A_TIME = 2**20
"""The bytes of a file that are read at a time: a larger buffer would be allocated as a whole for
the smallest file."""
MOST_BYTES = 256 * 2**20
"""The most bytes of a file that is read: enough for several million events."""
Seen = TypeVar("Seen", bound=Hashable)


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
