"""Decides whether the order of two statements matters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Path = tuple[str, ...]
"""The names that an expression consists of: ("buffers", "doc_ids") for `buffers.doc_ids`."""
ORDERING = ("record", "record_event", "wait_event", "wait_stream", "wait", "synchronize", "replay")
"""Methods that mark or wait for a point in the order of queued work, whichever tensors they use."""


def order_matters(first: ast.stmt, second: ast.stmt) -> bool:
    """True if one of two neighbours changes a value that the other one names, or orders the work
    that it queues. One of them must be a call: the order of two assignments matters to Python
    itself."""
    calls = [_call_of(first), _call_of(second)]
    if not any(calls):
        return False
    if any(call and _is_check(call) for call in calls) and not all(calls):
        return False
    for one, other in ((first, second), (second, first)):
        if _is_ordering(one) and any(isinstance(part, ast.Call) for part in ast.walk(other)):
            return True
        named = [*_named(other)]
        if any(_overlap(path, name) for path in _changed(one) for name in named):
            return True
    return False


def _call_of(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def _is_check(call: ast.Call) -> bool:
    """True for a call of a function that, by the workbook's names, raises an error or does
    nothing."""
    return isinstance(call.func, ast.Name) and call.func.id.startswith("check_")


def _is_ordering(statement: ast.stmt) -> bool:
    calls = [part for part in ast.walk(statement) if isinstance(part, ast.Call)]
    return any(getattr(call.func, "attr", "") in ORDERING for call in calls)


def _changed(statement: ast.stmt) -> Iterator[Path]:
    """Yields the paths that a statement changes: the targets of an assignment; in a call whose
    result is not used, the object of the method or the first argument of the function."""
    if isinstance(statement, ast.Assign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from _named(target)
    elif (call := _call_of(statement)) and not _is_check(call):
        if isinstance(call.func, ast.Attribute):
            yield from _named(call.func.value)
        elif call.args:
            yield from _named(call.args[0])


def _named(node: ast.AST) -> Iterator[Path]:
    """Yields each variable or attribute that `node` names, as its longest path, without the names
    of the methods that are called."""
    path = _path(node)
    if path:
        yield path
    elif isinstance(node, ast.Call):
        func = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        for part in (func, *node.args, *node.keywords):
            yield from _named(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _named(child)


def _path(node: ast.AST) -> Path:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (path := _path(node.value)):
        return (*path, node.attr)
    return ()


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
