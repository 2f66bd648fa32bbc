"""Reads tables of katas.toml, lesson.toml and surviving_mutants.toml, and checks their format."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

Table = dict[str, Any]
"""One table of a file, by its keys."""
WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list of texts",
    bool: "true or false",
}


class ExerciseError(Exception):
    """An error that the reader can fix; its text is one sentence that says how."""


class Format(NamedTuple):
    """The keys of a table, each with the types that its value may have."""

    required: Mapping[str, tuple[type, ...]]
    optional: Mapping[str, tuple[type, ...]] = {}


def texts(*keys: str) -> dict[str, tuple[type, ...]]:
    return dict.fromkeys(keys, (str,))


def read_tables(root: Path, file: str, formats: Mapping[str, Format]) -> dict[str, list[Table]]:
    """Returns the tables in `file` below `root`, by their name; without the file there are none.

    Raises ExerciseError if it is not TOML, or a table does not have its format."""
    path = root / file
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise ExerciseError(f"{file} is not valid TOML: {error}") from error
    for name, entries in content.items():
        if name not in formats or not _are_tables(entries):
            known = ", ".join(f"[[{name}]]" for name in formats)
            raise ExerciseError(f"{file} has {name!r}: its tables are {known}")
        for number, entry in enumerate(entries, 1):
            problem = _problem(entry, formats[name])
            if problem:
                label = entry.get("name") or entry.get("kata") or number
                raise ExerciseError(f"{file}, [[{name}]] {label}: {problem}")
    return {name: content.get(name, []) for name in formats}


def _are_tables(entries: object) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)


def _problem(entry: Mapping[str, Any], form: Format) -> str:
    types = {**form.required, **form.optional}
    missing = form.required.keys() - entry.keys()
    if missing:
        return f"{', '.join(sorted(missing))} is missing"
    for key, value in entry.items():
        if key not in types:
            return f"{key!r} is no key of it, but {', '.join(types)} are"
        if not any(_fits(value, kind) for kind in types[key]):
            return f"{key} is {value!r}: write {' or '.join(WORDS[kind] for kind in types[key])}"
    return ""


def _fits(value: object, kind: type) -> bool:
    if isinstance(value, list):
        return kind is list and all(isinstance(item, str) for item in value)
    return type(value) is kind or (kind is float and type(value) is int)
