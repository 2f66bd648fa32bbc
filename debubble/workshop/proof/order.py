"""Whether it matters which of two statements comes first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Path = tuple[str, ...]
"""`buffers.doc_ids`, as the names that it consists of."""
ORDERING = ("record", "record_event", "wait_event", "wait_stream", "wait", "synchronize", "replay")
"""Methods that mark or keep an order of all that is queued, whatever it works on."""


def order_matters(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether one of two neighbours changes what the other one names, or orders what it queues; and
    one of them is a call: two assignments have an order that Python itself asks for."""
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
    """By the workbook's names: it raises an error or does nothing."""
    return isinstance(call.func, ast.Name) and call.func.id.startswith("check_")


def _is_ordering(statement: ast.stmt) -> bool:
    calls = [part for part in ast.walk(statement) if isinstance(part, ast.Call)]
    return any(getattr(call.func, "attr", "") in ORDERING for call in calls)


def _changed(statement: ast.stmt) -> Iterator[Path]:
    """What is assigned to; the object of a method, or the first argument of a function, that is
    called for nothing but its effect."""
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
    """The longest paths in `node`, without the names of the methods that are called."""
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
