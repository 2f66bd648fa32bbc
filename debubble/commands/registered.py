"""What others register with the command line as entry points, in an environment or a checkout."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint, entry_points

from ..assets import ASSETS

PROJECT = ASSETS.with_name("pyproject.toml")


def registered(group: str) -> dict[str, EntryPoint]:
    """By name. A checkout that was never installed has those of its pyproject.toml."""
    found = entry_points(group=group) or _in_the_checkout(group)
    return {point.name: point for point in found}


def _in_the_checkout(group: str) -> list[EntryPoint]:
    try:
        project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    except FileNotFoundError:
        return []
    values = project.get("entry-points", {}).get(group, {})
    return [EntryPoint(name, value, group) for name, value in values.items()]
