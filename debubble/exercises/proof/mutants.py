"""Mutants of a solution: its module with one small edit each, like a slip of the hand. Tests that
pass on a mutant ask for less than their kata says."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..kata_files.catalogue import Kata
from ..kata_files.changed_solution import solution_module
from ..kata_files.stubs.source import Definition, SourceModule, source_module
from .edits import Edits


@dataclass(frozen=True, slots=True)
class Mutant:
    kata: Kata
    line: int
    """The line in the solution's module, counted from 1."""
    code: str
    """The source of that line before the edit."""
    edit: str
    """A description of the edit: "`<` becomes `<=`"."""
    text: str
    """The whole module, edited."""


def mutants_of(kata: Kata, left_open: Collection[str] = ()) -> list[Mutant]:
    """Returns one mutant for each edit of the kata's functions and classes, and of those in the
    same module that they use, sorted by line. Definitions that are `left_open` are not edited: the
    kata says nothing about them."""
    module = solution_module(kata)
    text = ("\n".join(module.lines) + "\n").encode()
    found: dict[str, Mutant] = {}
    edits = Edits(text, _unasked_checks(kata, module))
    for node in _reached(module, kata.exported_names, left_open):
        for edit in edits.of(node):
            mutated = (text[: edit.start] + edit.new.encode() + text[edit.end :]).decode()
            line = 1 + text.count(b"\n", 0, edit.start)
            code = module.lines[line - 1].strip()
            if _is_python(mutated):
                found.setdefault(mutated, Mutant(kata, line, code, edit.what, mutated))
    return sorted(found.values(), key=lambda mutant: (mutant.line, mutant.edit))


def _unasked_checks(kata: Kata, module: SourceModule) -> set[str]:
    """Returns the names of the functions `check_…` that the kata's `before` does not use. They
    refuse wrong arguments, and the kata requires no such error."""
    known = set()
    for target in kata.before:
        theirs = source_module(target.module, kata.root)
        known |= _names(_reached(theirs, [target.name], ()))
    return {name for name in _names(module.body) if name.startswith("check_")} - known


def _names(statements: Sequence[ast.stmt]) -> set[str]:
    nodes = (part for statement in statements for part in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _reached(
    module: SourceModule, names: Sequence[str], left_open: Collection[str]
) -> list[ast.stmt]:
    """Returns the functions and classes with these names and those that they use in turn, without
    kernels: a kernel that writes outside its target spoils the process in which the next mutants
    are judged."""
    to_see, seen = [*names], {}
    while to_see:
        name = to_see.pop()
        node = module.statements.get(name)
        if not isinstance(node, Definition) or name in seen or _is_kernel(node):
            continue
        seen[name] = node
        to_see += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return [node for name, node in seen.items() if name not in left_open]


def _is_kernel(node: Definition) -> bool:
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(name.startswith("triton.jit") for name in names)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
