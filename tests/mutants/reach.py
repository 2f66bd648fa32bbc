"""Instruments mutated functions to report that they are reached, so that only tests that reach them
are run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from .making import Mutant

NAME = "reached_by_a_test"
"""The name of a builtin set that collects the numbers; other processes don't have it."""

Definition = ast.FunctionDef | ast.ClassDef


def instrumented(root: Path, mutants: Iterable[Mutant]) -> dict[str, str]:
    """Returns texts of files by path, in which a function reports the number of each of its
    mutants. A mutant in a kernel, or in the body of a class without methods, is reported by
    whatever uses its name."""
    trees = {
        path.relative_to(root).as_posix(): ast.parse(path.read_bytes())
        for path in sorted((root / "solutions").rglob("*.py"))
    }
    told: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    """The mutants' numbers, by file and the function's first line."""
    for number, mutant in enumerate(mutants):
        for file, function in _tellers(trees, mutant):
            told[file][function.lineno].append(number)
    return {
        file: _with_calls((root / file).read_text(encoding="utf-8"), trees[file], numbers)
        for file, numbers in told.items()
    }


def definition_of(tree: ast.Module, mutant: Mutant) -> Definition:
    """Returns the innermost definition around the mutant that is not inside a function."""
    node: ast.AST = tree
    for name in mutant.within:
        same = [part for part in _definitions(node) if part.name == name]
        around = (it for it in same if it.lineno <= mutant.line <= (it.end_lineno or 0))
        node = next(around, same[0])
    assert isinstance(node, Definition)
    return node


def _tellers(trees: dict[str, ast.Module], mutant: Mutant) -> Iterator[tuple[str, ast.FunctionDef]]:
    node = definition_of(trees[mutant.file], mutant)
    functions = [node] if isinstance(node, ast.FunctionDef) else [*_functions(node)]
    if functions and not is_kernel(node):
        yield from ((mutant.file, function) for function in functions)
        return
    names = {node.name}
    while True:
        kernels = {
            function.name
            for tree in trees.values()
            for function in _functions(tree)
            if is_kernel(function) and names & _named(function)
        }
        if kernels <= names:
            break
        names |= kernels
    for file, tree in trees.items():
        for function in _functions(tree):
            if not is_kernel(function) and names & _named(function):
                yield file, function


def _definitions(node: ast.AST) -> Iterator[Definition]:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, Definition):
            yield part


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yields the functions of a module and of its classes, but not functions inside functions."""
    for part in _definitions(node):
        if isinstance(part, ast.FunctionDef):
            yield part
        else:
            yield from _functions(part)


def _named(node: ast.AST) -> set[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def is_kernel(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(decorator).startswith("triton.jit") for decorator in decorators)


def _with_calls(text: str, tree: ast.Module, numbers: dict[int, list[int]]) -> str:
    """Returns the text with calls that report. Lines stay where they are, unless a function begins
    with a block."""
    lines = text.splitlines()
    for function in sorted(_functions(tree), key=lambda it: -it.lineno):
        if function.lineno in numbers:
            told = numbers[function.lineno]
            call = f"__import__('builtins').__dict__.get({NAME!r}, set()).update({told})"
            first = function.body[0]
            assert first.end_lineno is not None and first.end_col_offset is not None
            line = lines[first.lineno - 1]
            indent = " " * first.col_offset
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                last = lines[first.end_lineno - 1].encode()
                end = first.end_col_offset
                told_after = last[:end] + b"; " + call.encode() + last[end:]
                lines[first.end_lineno - 1] = told_after.decode()
            elif not line[: first.col_offset].strip():
                lines[first.lineno - 1] = f"{indent}{call}\n{line}"
    return "\n".join(lines) + "\n"
