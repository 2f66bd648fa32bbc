"""Finds what a stub needs beside its exercise: imports, constants, and the definitions that it
uses."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .source import Definition, Import, SourceModule, names_read, source_module


class Helper(NamedTuple):
    """A constant, function or class of `solutions` that an exercise uses, directly or through
    another helper, with its source text."""

    text: str
    is_definition: bool
    """True for a function or class, False for a constant."""


class Needs(NamedTuple):
    imports: list[Import]
    helpers: dict[str, Helper]
    """The helpers by name, each after the helpers that it reads itself."""


def needs_of(
    code: str, modules: Sequence[SourceModule], given: Mapping[str, Import] | None = None
) -> Needs:
    """Returns what a stub with `code` needs beside it: the imports and definitions of the names
    that `code` reads and does not define, looked up in each of `modules` in turn. Names that are
    `given` are imported."""
    imports: dict[Import, None] = {}
    helpers: dict[str, Helper] = {}
    own = {node.name for node in ast.parse(code).body if isinstance(node, Definition)}

    def need(text: str, modules: Sequence[SourceModule]) -> None:
        for name in names_read(text):
            if name in own or name in helpers:
                continue
            found = (given or {}).get(name) or next(
                (found for m in modules if (found := _found(m, name))), None
            )
            if isinstance(found, Import):
                imports[found] = None
            elif found is not None:
                module, node = found
                helper = Helper(module.statement_text(node), isinstance(node, Definition))
                need(helper.text, [module])
                helpers.setdefault(name, helper)

    need(code, modules)
    return Needs(list(imports), helpers)


def _found(module: SourceModule, name: str) -> Import | tuple[SourceModule, ast.stmt] | None:
    """Returns where `module` gets `name` from: an import, or a module of `solutions` and its
    definition there; None if it has no such name. An import from `solutions` is followed to the
    definition."""
    if name in module.statements:
        return module, module.statements[name]
    known = module.imports.get(name)
    if known is None or known.module.partition(".")[0] != "solutions":
        return known
    # A stub may not import the solutions, so their definition is copied into the stub.
    return _found(source_module(known.module, module.root), known.name)
