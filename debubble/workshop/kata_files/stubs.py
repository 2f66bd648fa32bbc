"""Makes a kata's stub: the solution's signature and docstring around the body of `before`.

The result is a function of `katas.toml` and `solutions` alone, so that a check can prove that the
file which the learner gets is the one that belongs to the solution.
"""

from __future__ import annotations

import ast
import sys
import textwrap

from .catalogue import Kata
from .stub_source import (
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


def generate(kata: Kata) -> str:
    """The text of the stub; raises StubError when solution and before do not fit together."""
    exercises, modules = [], []
    for solution, before in zip(kata.solution, kata.before, strict=True):
        ours = source_module(solution.module, kata.root)
        theirs = source_module(before.module, kata.root)
        exercises.append(_exercise(ours, theirs, solution.name))
        modules += [theirs, ours]
    own = "\n\n\n".join(exercises)
    imports, helpers = _what_it_needs(own, modules)
    lazy = any(module.has_lazy_annotations for module in modules)
    header = [_docstring(kata), "from __future__ import annotations" if lazy else ""]
    top = "\n\n".join(part for part in [*header, _import_block(imports)] if part)
    constants = [text for text, is_definition in helpers if not is_definition]
    definitions = [text for text, is_definition in helpers if is_definition]
    opening = "\n\n".join([top, "\n".join(constants)]) if constants else top
    return "\n\n\n".join([opening, *definitions, own]) + "\n"


def _docstring(kata: Kata) -> str:
    task = "\n".join(
        line if line.startswith("    ") else textwrap.fill(line, WIDTH)
        for line in kata.task.splitlines()
    )
    test = kata.relative(kata.test_path)
    text = (
        f'"""{kata.title} (chapter {kata.chapter}).\n\n{task}\n\n'
        f"Edit this file, then run\n\n    pytest {test}\n\n"
        f"Stuck?         debubble hint {kata.name}\n"
        f'Start afresh?  debubble reset {kata.name}\n"""'
    )
    if text.count('"""') != 2 or "\\" in text:
        raise StubError(f"the task of {kata.name} holds a backslash or triple quotes: reword it")
    return text


def _exercise(ours: SourceModule, theirs: SourceModule, name: str) -> str:
    """Solution `ours` and before `theirs`, joined: the first's face, the second's body."""
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
        # What lies between, blank lines and comments, comes along as it is.
        pieces += theirs.lines[at - 1 : first_line(statement) - 1]
        if isinstance(statement, Function) and statement.name in methods:
            pieces.append(_joined_function(ours, methods[statement.name], theirs, statement))
        else:
            pieces.append(theirs.statement_text(statement))
        at = last_line(statement) + 1
    return "\n".join(pieces)


def _face(module: SourceModule, node: Definition) -> str:
    """Decorators, signature and docstring."""
    return module.text(first_line(node), _body_start(module, node) - 1)


def _body(module: SourceModule, node: Definition) -> str:
    """All below the docstring, comments included."""
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


def _what_it_needs(
    code: str, modules: list[SourceModule]
) -> tuple[list[Import], list[tuple[str, bool]]]:
    """Imports, and the helper definitions of `solutions` that `code` reads, through and through.

    A helper is its text and whether it is a function or class.
    """
    imports: dict[Import, None] = {}
    helpers: dict[str, tuple[str, bool]] = {}
    own = {node.name for node in ast.parse(code).body if isinstance(node, Definition)}

    def need(text: str, modules: list[SourceModule]) -> None:
        for name in names_read(text):
            if name in own or name in helpers:
                continue
            found = next((found for m in modules if (found := _found(m, name))), None)
            if isinstance(found, Import):
                imports[found] = None
            elif found is not None:
                module, node = found
                helper = module.statement_text(node)
                need(helper, [module])
                helpers.setdefault(name, (helper, isinstance(node, Definition)))

    need(code, modules)
    return list(imports), list(dict.fromkeys(helpers.values()))


def _found(module: SourceModule, name: str) -> Import | tuple[SourceModule, ast.stmt] | None:
    """Where `module` has `name` from: an import that a stub may hold too, or a definition."""
    if name in module.statements:
        return module, module.statements[name]
    known = module.imports.get(name)
    if known is None or known.module.partition(".")[0] != "solutions":
        return known
    # A stub may not import the solutions: their definition comes along instead.
    return _found(source_module(known.module, module.root), known.name)


def _import_block(imports: list[Import]) -> str:
    """Sorted as ruff sorts: standard library, other packages, our own."""
    groups: dict[int, dict[str, list[Import]]] = {}
    for item in imports:
        root = item.module.partition(".")[0]
        group = 0 if root in sys.stdlib_module_names else 2 if root == "debubble" else 1
        kind = item.module if item.name else ""
        groups.setdefault(group, {}).setdefault(kind, []).append(item)
    blocks = []
    for _, kinds in sorted(groups.items()):
        plain = sorted(_import_line(item) for item in kinds.pop("", []))
        lines = [_from_line(module, kinds[module]) for module in sorted(kinds)]
        blocks.append("\n".join([*plain, *lines]))
    return "\n\n".join(blocks)


def _import_line(item: Import) -> str:
    return f"import {item.module}" + (f" as {item.alias}" if item.alias else "")


def _from_line(module: str, items: list[Import]) -> str:
    items = sorted(items, key=lambda item: (_rank(item.name), item.name))
    names = [item.name + (f" as {item.alias}" if item.alias else "") for item in items]
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _rank(name: str) -> int:
    """ruff sorts constants first, then classes, then the rest."""
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
