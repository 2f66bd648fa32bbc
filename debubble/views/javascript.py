"""The browser's part of a view, written as small ES modules and sent as one."""

from __future__ import annotations

import re
from pathlib import Path

IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]*)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
DECLARED = re.compile(r"^(?:export )?(?:const|let|class|function) (\w+)", re.MULTILINE)


def one_module(entry: Path) -> str:
    """Returns the source of `entry` and, before it, of all modules that it imports, each file once.

    A browser that gets a widget's source can't load other files. The names of all modules then
    share one scope: raises ValueError if two modules declare the same name.
    """
    parts: dict[Path, str] = {}
    _collect(entry.resolve(), parts)
    owner: dict[str, Path] = {}
    for path, source in parts.items():
        for name in DECLARED.findall(source):
            if owner.setdefault(name, path) != path:
                raise ValueError(f"{path.name} and {owner[name].name} both name something {name}")
    return "\n".join(EXPORT.sub("", IMPORT.sub("", source)) for source in parts.values())


def _collect(path: Path, parts: dict[Path, str]) -> None:
    """Adds the source of the module at `path` to `parts`, after those of all modules that it
    imports."""
    if path in parts:
        return
    source = path.read_text()
    for imported in IMPORT.findall(source):
        _collect((path.parent / imported).resolve(), parts)
    parts[path] = source
