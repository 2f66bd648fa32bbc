"""Puts a mutant into functions that are already imported, which saves imports and collection."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from .making import Mutant
from .reach import definition_of, is_kernel


def put(root: Path, mutant: Mutant) -> bool:
    """Puts the mutant in place. Returns False, and does nothing, if the edit is not in a function's
    body: defaults, classes, kernels. Effects of the function at import stay."""
    path = root / mutant.file
    text = path.read_text(encoding="utf-8")
    nodes = [definition_of(ast.parse(each), mutant) for each in (text, mutant.text)]
    if any(not isinstance(node, ast.FunctionDef) or is_kernel(node) for node in nodes):
        return False
    heads = [ast.dump(node.args) for node in nodes if isinstance(node, ast.FunctionDef)]
    old, new = (list(_codes(compile(each, str(path), "exec"))) for each in (text, mutant.text))
    name = ".".join(mutant.within)
    twins = [[code for code in codes if code.co_qualname == name] for codes in (old, new)]
    if heads[0] != heads[1] or len(twins[0]) != 1 or len(twins[1]) != 1:
        return False
    ((before,), (after,)) = twins
    functions = [
        it
        for it in gc.get_objects()
        if isinstance(it, FunctionType)
        and it.__code__.co_filename == str(path)
        and it.__code__.co_qualname == name
    ]
    if not functions or before.co_freevars != after.co_freevars:
        return False
    for function in functions:
        function.__code__ = after
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
