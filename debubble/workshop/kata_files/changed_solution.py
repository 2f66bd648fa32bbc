"""A wrong attempt as code: the solution's module with a mistake. The file has only the mistake. A
correct variant, which does without one, is written in the same way.

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


def code_of_attempt(kata: Kata, path: Path) -> Code:
    """WorkshopError when the attempt at `path` is no Python, or does not fit the solution."""
    solution = solution_module(kata)
    package = package_of(solution)
    if path.suffix == ".diff":
        return Code(package, [(f"{path} on the solution", _changed(kata, path, solution))])
    own = SourceModule(path.stem, path, kata.root)
    nodes = ast.walk(ast.Module(own.body, []))
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for name in {*own.statements} - {*solution.statements, *solution.imports, *read}:
        problem = f"the solution has no {name!r} that it could replace, and nothing here uses it"
        raise _misfit(kata, path, own.statements[name].lineno, problem)
    return Code(package, [(str(it.path), "\n".join(it.lines) + "\n") for it in (solution, own)])


def solution_module(kata: Kata) -> SourceModule:
    """The module that has all names of the solution: what an attempt changes."""
    modules = [source_module(target.module, kata.root) for target in kata.solution]
    names = set(kata.exported_names)
    return next((m for m in modules if names <= {*m.statements, *m.imports}), modules[0])


def package_of(module: SourceModule) -> str:
    return module.name if module.is_package else module.name.rpartition(".")[0]


def _changed(kata: Kata, path: Path, solution: SourceModule) -> str:
    """The text of the solution's module with the changes of a .diff."""
    text: list[tuple[int, str]] = []
    line = end = 0
    for first, last, line, new in sorted(_changes(kata, path, solution)):
        if first < end:
            problem = f"this @@ and another one share {solution.lines[first].strip()!r}: join them"
            raise _misfit(kata, path, line, problem)
        text += [(line, same) for same in solution.lines[end:first]] + new
        end = last
    text += [(line, same) for same in solution.lines[end:]]
    code = "\n".join(code for _, code in text) + "\n"
    try:
        ast.parse(code)
    except SyntaxError as error:
        line, _ = text[min(error.lineno or 1, len(text)) - 1]
        raise _misfit(kata, path, line, f"Python cannot read it: {error.msg}") from error
    return code


def _changes(
    kata: Kata, path: Path, solution: SourceModule
) -> Iterator[tuple[int, int, int, list[tuple[int, str]]]]:
    """The slice of the solution's lines that each `@@` is about, as two numbers; the `@@`'s line in
    the .diff; and what comes in their place, each with its line there."""
    about, *blocks = re.split("^@@", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    line = 1 + about.count("\n")
    for block in blocks:
        within, *lines = block.strip(" ").rstrip().split("\n")
        if not lines:
            raise _misfit(kata, path, line, "this @@ has no lines")
        first, last, body = 0, len(solution.lines), solution.body
        for name in within.split(".") if within else []:
            named = [node for node in body if isinstance(node, Definition) and node.name == name]
            if not named:
                raise _misfit(kata, path, line, f"the solution defines no {within!r}")
            first, last, body = first_line(named[0]) - 1, last_line(named[0]), named[0].body
        old = [text[1:] for text in lines if text[:1] != "+"]
        starts = range(first, last - len(old) + 1)
        found = [at for at in starts if solution.lines[at : at + len(old)] == old]
        if len(found) != 1:
            where = within or kata.relative(solution.path)
            problem = f"the lines without a + are not in {where}"
            if found:
                problem = f"{where} has the lines without a + {len(found)} times: add more of them"
            raise _misfit(kata, path, line, problem)
        new = [(at, text[1:]) for at, text in enumerate(lines, line + 1) if text[:1] != "-"]
        yield found[0], found[0] + len(old), line, new
        line += block.count("\n")


def _misfit(kata: Kata, path: Path, line: int, problem: str) -> WorkshopError:
    return WorkshopError(f"{kata.relative(path)}, line {line}: {problem}")
