"""The browser's part of a view, written as small ES modules and sent as one."""

from __future__ import annotations

import re
from pathlib import Path

IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]*)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
DECLARED = re.compile(r"^(?:export )?(?:const|let|class|function) (\w+)", re.MULTILINE)


def one_module(entry: Path) -> str:
    """The source of `entry` and, before it, of all that it imports, each file once.

    A browser that is handed a widget's source can't ask for other files. What the modules name
    stands side by side then: ValueError if two of them give one name to different things.
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
    """Depth first, so that a module comes after what it imports."""
    if path in parts:
        return
    source = path.read_text()
    for imported in IMPORT.findall(source):
        _collect((path.parent / imported).resolve(), parts)
    parts[path] = source
