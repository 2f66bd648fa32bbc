"""A wrong attempt as code: the solution's module with a mistake, which alone its file holds.

`no_event.diff` has lines that differ; `no_event.py` runs on top of the module, so that what it
defines takes the place of what the solution calls so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .catalogue import Kata, WorkshopError
from .stub_source import Definition, SourceModule, first_line, last_line, source_module


class Code(NamedTuple):
    """What makes a module when all of it is run there, in a package or "" for none."""

    package: str
    parts: list[tuple[str, str]]
    """Each with the file name that its lines are quoted with."""


def _solution_module(kata: Kata) -> SourceModule:
    """The one that has all of the kata's names: its own, and those that it imports."""
    modules = [source_module(target.module, kata.root) for target in kata.solution]
    names = set(kata.exported_names)
    return next((m for m in modules if names <= {*m.statements, *m.imports}), modules[0])


def code_of_attempt(kata: Kata, path: Path) -> Code:
    """WorkshopError when the attempt at `path` is no Python, or does not fit the solution."""
    solution = _solution_module(kata)
    package = solution.name if solution.is_package else solution.name.rpartition(".")[0]
    if path.suffix == ".diff":
        return Code(package, [(f"{path} on the solution", _changed(kata, path, solution))])
    own = SourceModule(path.stem, path, kata.root)
    names = [node for node in ast.walk(ast.Module(own.body, [])) if isinstance(node, ast.Name)]
    known = {*solution.statements, *solution.imports}
    known |= {name.id for name in names if isinstance(name.ctx, ast.Load)}
    for name, statement in own.statements.items():
        if name not in known:
            raise WorkshopError(
                f"{kata.relative(path)}, line {statement.lineno} defines {name!r}, which "
                f"{kata.relative(solution.path)} does not, and which nothing here uses"
            )
    return Code(package, [(str(it.path), "\n".join(it.lines) + "\n") for it in (solution, own)])


class _Change(NamedTuple):
    """What one `@@` of a .diff is followed by."""

    line: int
    """Of the `@@` in the .diff, from 1, as are those of `new`."""
    within: str
    """`run_batches`, `Engine.load`, or "" for all of the module."""
    old: list[str]
    new: list[tuple[int, str]]


def _changed(kata: Kata, path: Path, solution: SourceModule) -> str:
    """The text of the solution's module with the changes of a .diff."""
    text: list[tuple[int, str]] = []
    line, end = 1, 0
    for start, change in sorted(_placed_changes(kata, path, solution)):
        line = change.line
        text += [(line, same) for same in solution.lines[end:start]] + change.new
        end = start + len(change.old)
    text += [(line, same) for same in solution.lines[end:]]
    code = "\n".join(code for _, code in text) + "\n"
    try:
        ast.parse(code)
    except SyntaxError as error:
        line, _ = text[min(error.lineno or 1, len(text)) - 1]
        place = f"{kata.relative(path)}, line {line}"
        raise WorkshopError(f"Python cannot read {place}: {error.msg}") from error
    return code


def _placed_changes(
    kata: Kata, path: Path, solution: SourceModule
) -> Iterator[tuple[int, _Change]]:
    """Each change, and how many lines of the solution's module come before it."""
    for change in _changes(kata, path):
        place = f"{kata.relative(path)}, line {change.line}"
        first, last = 1, len(solution.lines)
        body = solution.body
        for name in filter(None, change.within.split(".")):
            named = [node for node in body if isinstance(node, Definition) and node.name == name]
            if not named:
                file = kata.relative(solution.path)
                raise WorkshopError(f"{place}: {file} defines no {change.within!r}")
            first, last, body = first_line(named[-1]), last_line(named[-1]), named[-1].body
        starts = [
            start
            for start in range(first - 1, last - len(change.old) + 1)
            if solution.lines[start : start + len(change.old)] == change.old
        ]
        if len(starts) != 1:
            where = change.within or kata.relative(solution.path)
            raise WorkshopError(
                f"{place}: {where} has the lines that begin with a space or a - {len(starts)} "
                "times, where it has to have them once"
            )
        yield starts[0], change


def _changes(kata: Kata, path: Path) -> Iterator[_Change]:
    about, *blocks = re.split("^@@", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    line = 1 + about.count("\n")
    for block in blocks:
        within, *rest = block.rstrip().splitlines()
        lines = [(line + i, text) for i, text in enumerate(rest, start=1)]
        for number, text in lines:
            if text[:1] not in " -+":
                place = f"{kata.relative(path)}, line {number}"
                raise WorkshopError(f"{place}: below @@ a line begins with a space, a - or a +")
        old = [text[1:] for _, text in lines if text[:1] != "+"]
        new = [(number, text[1:]) for number, text in lines if text[:1] != "-"]
        yield _Change(line, within.strip(), old, new)
        line += block.count("\n")
