"""The format of saved timelines: one JSON object, with columns instead of rows."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from .event import HazardKind

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
