"""A wrong attempt as code: the solution's module with a mistake. Its file has only the mistake. A
correct variant is written in the same way, without a mistake.

`no_event.diff` has the lines that differ. `no_event.py` runs after the module, so its definitions
replace those of the module that have the same names.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .catalogue import Kata
from .stubs.source import Definition, SourceModule, first_line, last_line, source_module
from .tables import ExerciseError


class Code(NamedTuple):
    """The source of one module: the texts to run in it in order, and its package, "" for none."""

    package: str
    parts: list[tuple[str, str]]
    """Each text, as (the file name under which its lines are quoted, the text)."""


def code_of_attempt(kata: Kata, path: Path) -> Code:
    """Returns the code of the attempt at `path`. Raises ExerciseError when it is not Python, or
    does not fit the solution."""
    solution = solution_module(kata)
    package = package_of(solution)
    if path.suffix == ".diff":
        changes = path.read_text(encoding="utf-8")
        text = changed(solution, changes, kata.relative(path))
        return Code(package, [(f"{path} on the solution", text)])
    own = SourceModule(path.stem, path, kata.root)
    nodes = ast.walk(ast.Module(own.body, []))
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for name in {*own.statements} - {*solution.statements, *solution.imports, *read}:
        problem = f"the solution has no {name!r} that it could replace, and nothing here uses it"
        raise _misfit(kata.relative(path), own.statements[name].lineno, problem)
    return Code(package, [(str(it.path), "\n".join(it.lines) + "\n") for it in (solution, own)])


def solution_module(kata: Kata) -> SourceModule:
    """Returns the module that attempts at the kata change: one that has all names of the solution,
    or else that of its first name."""
    modules = [source_module(target.module, kata.root) for target in kata.solution]
    names = set(kata.exported_names)
    return next((m for m in modules if names <= {*m.statements, *m.imports}), modules[0])


def package_of(module: SourceModule) -> str:
    return module.name if module.is_package else module.name.rpartition(".")[0]


def changed(module: SourceModule, changes: str, place: str) -> str:
    """Returns the module's text with `changes`, the text of a .diff. Raises ExerciseError, which
    names `place` and a line of the .diff, if a change does not fit the module."""
    text: list[tuple[int, str]] = []
    line = end = 0
    for first, last, line, new in sorted(_changes(module, changes, place)):
        if first < end:
            problem = f"this @@ and another one share {module.lines[first].strip()!r}: join them"
            raise _misfit(place, line, problem)
        text += [(line, same) for same in module.lines[end:first]] + new
        end = last
    text += [(line, same) for same in module.lines[end:]]
    code = "\n".join(code for _, code in text) + "\n"
    try:
        ast.parse(code)
    except SyntaxError as error:
        line, _ = text[min(error.lineno or 1, len(text)) - 1]
        raise _misfit(place, line, f"Python cannot read it: {error.msg}") from error
    return code


def _changes(
    module: SourceModule, changes: str, place: str
) -> Iterator[tuple[int, int, int, list[tuple[int, str]]]]:
    """Yields a tuple for each `@@`: first and end index of the module's lines that it replaces,
    the line of the `@@` in the .diff, and the new lines, each with its line number in the .diff."""
    about, *blocks = re.split("^@@", changes, flags=re.MULTILINE)
    line = 1 + about.count("\n")
    for block in blocks:
        within, *lines = block.strip(" ").rstrip().split("\n")
        if not lines:
            raise _misfit(place, line, "this @@ has no lines")
        first, last, body = 0, len(module.lines), module.body
        for name in within.split(".") if within else []:
            named = [node for node in body if isinstance(node, Definition) and node.name == name]
            if not named:
                raise _misfit(place, line, f"the solution defines no {within!r}")
            first, last, body = first_line(named[0]) - 1, last_line(named[0]), named[0].body
        old = [text[1:] for text in lines if text[:1] != "+"]
        starts = range(first, last - len(old) + 1)
        found = [at for at in starts if module.lines[at : at + len(old)] == old]
        if len(found) != 1:
            where = within or os.path.relpath(module.path, module.root)
            problem = f"the lines without a + are not in {where}"
            if found:
                problem = f"{where} has the lines without a + {len(found)} times: add more of them"
            raise _misfit(place, line, problem)
        new = [(at, text[1:]) for at, text in enumerate(lines, line + 1) if text[:1] != "-"]
        yield found[0], found[0] + len(old), line, new
        line += block.count("\n")


def _misfit(place: str, line: int, problem: str) -> ExerciseError:
    return ExerciseError(f"{place}, line {line}: {problem}")
