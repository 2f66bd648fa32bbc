"""Finds extensions of the command line: entry points, or entries in the pyproject.toml of a
checkout."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint, entry_points

from ..assets import ASSETS

PROJECT = ASSETS.with_name("pyproject.toml")


def registered(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of the group `debubble.<something>` by name, and in a checkout those
    that its pyproject.toml lists in `tool.debubble.<something>`."""
    return {point.name: point for point in [*_in_the_checkout(group), *entry_points(group=group)]}


def _in_the_checkout(group: str) -> list[EntryPoint]:
    try:
        project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    table = project.get("tool", {}).get("debubble", {})
    values = table.get(group.removeprefix("debubble."), {})
    return [EntryPoint(name, value, group) for name, value in values.items()]
