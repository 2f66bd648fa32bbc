"""Makes a kata's stub: the solution's signature and docstring around the body of `before`.

The result depends only on `katas.toml` and `solutions`, so a check can prove that the learner's
file belongs to the current solution.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ..catalogue import Kata
from .helpers import needs_of
from .source import (
    Definition,
    Function,
    Import,
    SourceModule,
    StubError,
    first_line,
    last_line,
    names_read,
    source_module,
)

WIDTH = 100
BIN = ".venv/bin/"
"""The folder of the commands that README.md sets up."""
EDIT = "# Yours to edit, from here on."


@dataclass(frozen=True)
class Exercise:
    """The code of a kata that a learner edits, and where the names that it reads come from."""

    code: str
    modules: Sequence[SourceModule]
    """The modules of `before` and the solution, in the order in which a name is looked up."""
    given: frozenset[str]
    """The helpers that the solution uses too: a stub imports them, unless they depend on the file
    that they stand in."""
    is_lazy: bool
    """True if annotations are not evaluated."""


def exercise_of(kata: Kata) -> Exercise:
    """Returns the exercise of a kata. Raises StubError when solution and before do not fit
    together."""
    exercises, answers = [], []
    theirs_then_ours: list[SourceModule] = []
    for solution, before in zip(kata.solution, kata.before, strict=True):
        ours = source_module(solution.module, kata.root)
        theirs = source_module(before.module, kata.root)
        exercises.append(_exercise(ours, theirs, solution.name))
        answers.append(ours.statement_text(ours.definition(solution.name)))
        theirs_then_ours += [theirs, ours]
    code = "\n\n\n".join(exercises)
    used = needs_of(code, theirs_then_ours).helpers
    shared = needs_of("\n\n\n".join(answers), theirs_then_ours[1::2]).helpers
    tied = {"__file__"}
    for name, helper in used.items():  # each after the helpers that it reads
        if tied & {*names_read(helper.text)}:
            tied.add(name)
    is_lazy = any(module.has_lazy_annotations for module in theirs_then_ours)
    given = frozenset(used.keys() & shared.keys() - tied)
    return Exercise(code, theirs_then_ours, given, is_lazy)


def generate(kata: Kata) -> str:
    """Returns the text of a kata's stub. Raises StubError when solution and before do not fit
    together."""
    exercise = exercise_of(kata)
    given = {name: Import(given_module(kata.system), name) for name in exercise.given}
    needs = needs_of(exercise.code, exercise.modules, given)
    constants = [helper.text for helper in needs.helpers.values() if not helper.is_definition]
    helpers = [helper.text for helper in needs.helpers.values() if helper.is_definition]
    first, *others = [*helpers, exercise.code]
    top = head(_docstring(kata), exercise.is_lazy, needs.imports, constants)
    return "\n\n\n".join([top, f"{EDIT}\n{first}", *others]) + "\n"


def given_module(system: str) -> str:
    """Returns the name of the module from which a system's stubs import what they are given."""
    return f"katas.{system}.given"


def head(docstring: str, is_lazy: bool, imports: Sequence[Import], constants: Sequence[str]) -> str:
    """Returns the beginning of a generated module, down to its constants."""
    future = "from __future__ import annotations" if is_lazy else ""
    parts = [docstring, future, import_block(imports), "\n".join(constants)]
    return "\n\n".join(filter(None, parts))


def _docstring(kata: Kata) -> str:
    paragraphs = kata.task.split("\n\n")
    task = "\n\n".join(
        text if text.startswith("    ") else textwrap.fill(text, WIDTH) for text in paragraphs
    )
    about = ", ".join(part for part in (f"chapter {kata.chapter}", kata.effort) if part)
    needed = " ".join(f"You need to know {kata.needs}.".split())
    needs = f"{textwrap.fill(needed, WIDTH)}\n\n" if kata.needs else ""
    test = kata.relative(kata.test_path)
    text = (
        f'"""{kata.title} ({about}).\n\n{task}\n\n{needs}'
        f"Edit this file, then run\n\n    {BIN}pytest {test}\n\n"
        f"Stuck?         {BIN}debubble hint {kata.name}\n"
        f'Start afresh?  {BIN}debubble reset {kata.name}\n"""'
    )
    if text.count('"""') != 2 or "\\" in text:
        raise StubError(f"the task of {kata.name} holds a backslash or triple quotes: reword it")
    return text


def _exercise(ours: SourceModule, theirs: SourceModule, name: str) -> str:
    """Returns the code of the function or class `name` that a learner edits: its signature and
    docstring from the solution's module `ours`, its body from the module `theirs` of `before`."""
    solution, before = ours.definition(name), theirs.definition(name)
    if isinstance(solution, ast.ClassDef) and isinstance(before, ast.ClassDef):
        return _joined_class(ours, solution, theirs, before)
    if isinstance(solution, ast.ClassDef) or isinstance(before, ast.ClassDef):
        raise StubError(f"{name} is a class in one of {ours.name} and {theirs.name}: make it both")
    return _joined_function(ours, solution, theirs, before)


def _joined_function(
    ours: SourceModule, solution: Function, theirs: SourceModule, before: Function
) -> str:
    if _signature(solution) != _signature(before):
        raise StubError(
            f"{solution.name} has another signature in {ours.name} than in {theirs.name}: "
            f"({ast.unparse(solution.args)}) against ({ast.unparse(before.args)})"
        )
    return "\n".join(part for part in [_face(ours, solution), _body(theirs, before)] if part)


def _joined_class(
    ours: SourceModule, solution: ast.ClassDef, theirs: SourceModule, before: ast.ClassDef
) -> str:
    methods, known = _methods(solution), _methods(before)
    missing = [name for name in methods if name not in known and not name.startswith("_")]
    if missing:
        raise StubError(
            f"{theirs.name}:{before.name} lacks {', '.join(missing)}, which the solution has: "
            "a stub shows every public method"
        )
    pieces, at = [_face(ours, solution)], _body_start(theirs, before)
    if ast.get_docstring(solution) and theirs.lines[at - 1].strip():
        pieces.append("")
    for statement in before.body[1 if ast.get_docstring(before) else 0 :]:
        # Blank lines and comments between the statements are copied as they are.
        pieces += theirs.lines[at - 1 : first_line(statement) - 1]
        if isinstance(statement, Function) and statement.name in methods:
            pieces.append(_joined_function(ours, methods[statement.name], theirs, statement))
        else:
            pieces.append(theirs.statement_text(statement))
        at = last_line(statement) + 1
    return "\n".join(pieces)


def _face(module: SourceModule, node: Definition) -> str:
    """Returns the source of a function or class down to its docstring: decorators, signature,
    docstring."""
    return module.text(first_line(node), _body_start(module, node) - 1)


def _body(module: SourceModule, node: Definition) -> str:
    """Returns the source of a function or class below its docstring, comments included."""
    return module.text(_body_start(module, node), last_line(node))


def _body_start(module: SourceModule, node: Definition) -> int:
    if ast.get_docstring(node):
        return last_line(node.body[0]) + 1
    line = node.lineno
    while not module.lines[line - 1].partition("#")[0].rstrip().endswith(":"):
        line += 1
    return line + 1


def _signature(node: Function) -> str:
    returns = ast.dump(node.returns) if node.returns else ""
    decorators = [ast.dump(decorator) for decorator in node.decorator_list]
    return ast.dump(node.args) + returns + "".join(decorators)


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def import_block(imports: Sequence[Import]) -> str:
    """Returns the lines of these imports, sorted as ruff sorts: standard library, other packages,
    our own."""
    groups: dict[int, dict[str, list[Import]]] = {}
    for item in imports:
        root = item.module.partition(".")[0]
        group = 0 if root in sys.stdlib_module_names else 2 if root in ("debubble", "katas") else 1
        kind = item.module if item.name else ""
        groups.setdefault(group, {}).setdefault(kind, []).append(item)
    blocks = []
    for _, kinds in sorted(groups.items()):
        plain = sorted(_import_line(item) for item in kinds.pop("", []))
        lines = [from_line(module, kinds[module]) for module in sorted(kinds)]
        blocks.append("\n".join([*plain, *lines]))
    return "\n\n".join(blocks)


def _import_line(item: Import) -> str:
    return f"import {item.module}" + (f" as {item.alias}" if item.alias else "")


def from_line(module: str, items: list[Import]) -> str:
    items = sorted(items, key=lambda item: (_rank(item.name), item.name))
    names = [item.name + (f" as {item.alias}" if item.alias else "") for item in items]
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _rank(name: str) -> int:
    """Returns the sort key of ruff: constants first, then classes, then the rest."""
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
