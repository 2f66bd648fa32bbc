"""The graph of imports: it has no circles, and no floor of `debubble` imports `debubble` itself.

import-linter checks that no floor uses a higher one.

`python -m tests.setup.import_graph` prints a sentence for each offence that says what to cut. It
takes a second, and `make lint` runs it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("debubble", "solutions")

TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
CONTRACTS = TOOLS["importlinter"]["contracts"]
LAYERS = next(found for found in CONTRACTS if found.get("containers") == ["debubble"])
"""import-linter's contract about the floors of `debubble`."""

ABOVE = re.split(" [:|] ", LAYERS["layers"][0])
"""The names of the packages and modules that may import `debubble` itself, the public face."""

FOR_TYPES = {tuple(line.split(" -> ")) for line in LAYERS.get("ignore_imports", ())}
"""Imports that don't count if they are under TYPE_CHECKING, as (module, imported module)."""

Graph = dict[str, set[str]]
"""A graph of imports, {module: modules that it imports}, by dotted names. Imports in functions and
for annotations count too. A package's `__init__` has the package's name."""


def read_graph(root: Path = ROOT) -> Graph:
    files = {
        _module(path.relative_to(root)): path
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }
    return {
        module: {name for name in _imported(module, path, files) if name != module}
        for module, path in files.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Returns one shortest circle of imports for each set of modules that import one another,
    beginning with the first module by name."""
    found, seen = [], set()
    for module in sorted(graph):
        if module in seen:
            continue
        circle = _shortest_way(graph, module, module)
        if circle:
            found.append(circle)
            seen |= {other for other in graph if _is_beside(graph, module, other)}
    return found


def through_the_face(graph: Mapping[str, set[str]]) -> list[str]:
    """Returns the modules of `debubble` below the commands that import the public face."""
    parts = {name: name.split(".") for name in sorted(graph) if "debubble" in graph[name]}
    return [
        name
        for name, (root, *below) in parts.items()
        if root == "debubble" and below[0] not in ABOVE
    ]


def offences(root: Path = ROOT) -> list[str]:
    """Returns a sentence for each circle and each import of the public face from below it; an empty
    list if all is well."""
    graph = read_graph(root)
    said = [f"a circle of imports: {' -> '.join(circle)}" for circle in circles(graph)]
    said += [f"{name} imports debubble, the public face" for name in through_the_face(graph)]
    return said


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    package = module.split(".")
    if path.name != "__init__.py":
        package.pop()
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for_types = list(_named(_taken_from_type_checking(tree), package, files))
    yield from _named(tree.body, package, files)
    yield from (name for name in for_types if (module, name) not in FOR_TYPES)


def _taken_from_type_checking(tree: ast.Module) -> list[ast.stmt]:
    """Removes the lines under `if TYPE_CHECKING:` from the tree, and returns them."""
    lines: list[ast.stmt] = []
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            lines += node.body
            node.body = []
    return lines


def _named(lines: list[ast.stmt], package: list[str], files: Mapping[str, Path]) -> Iterator[str]:
    """Yields the names of our modules that these statements import, in a file of the package
    `package`."""
    for node in (node for line in lines for node in ast.walk(line)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield from (name for name in (name if name in files else base,) if name in files)


def _shortest_way(graph: Mapping[str, set[str]], start: str, end: str) -> list[str]:
    """Returns the modules on the shortest way from `start` to `end`, both included, by at least one
    import; empty if there is none."""
    ways = [[start]]
    reached: set[str] = set()
    while ways:
        way = ways.pop(0)
        for name in sorted(graph[way[-1]]):
            if name == end:
                return [*way, end]
            if name not in reached:
                reached.add(name)
                ways.append([*way, name])
    return []


def _is_beside(graph: Mapping[str, set[str]], one: str, other: str) -> bool:
    """Returns True if each module imports the other, directly or not."""
    return bool(_shortest_way(graph, one, other) and _shortest_way(graph, other, one))


if __name__ == "__main__":
    found = offences()
    print("\n".join(found) or "No circles, and no floor imports the public face.")
    sys.exit(1 if found else 0)
