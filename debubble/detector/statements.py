"""Finds the statement that a line belongs to: its text on one line, and its kind of code."""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from ..contract.source_line import SourceLine

MOST_CHARACTERS = 2_000_000
"""The length of the longest file that is parsed for its statements."""


class Statement(NamedTuple):
    """A statement: its `text` on one line, for a compound statement only its head, and its `forms`.

    The forms are words for its parts: `if`, `while`, `assert`, `for`, `return`, `augmented`,
    `f-string`, `comprehension`, `conditional`, `literal` (a tensor made of constants in the code),
    `many indices`, `every n` (it runs only if the remainder of a division says so), `in forward`,
    `in a test`, `in a capture`, `in a function`, `in a loop`, `top level` (in no function and no
    loop). For a tensor that is moved by `.to()` or `.cuda()` they say how it was made:
    `moves literal`, `moves values`, `moves array`, `moves factory`, `moves something`."""

    text: str
    forms: frozenset[str]


def statement_at(line: SourceLine | None) -> Statement:
    """Returns the innermost statement that covers `line`. Uses the line's own text if its file
    can't be read any more, as for a saved recording."""
    if line is None:
        return Statement("", frozenset())
    source = "".join(linecache.getlines(line.file)) if line.code is None else ""
    found = _statements(source).get(line.line) if len(source) <= MOST_CHARACTERS else None
    return found or _alone(line.text)


@lru_cache(16)
def _statements(source: str) -> dict[int, Statement]:
    """Returns the innermost statement of each line of a file, by line number. Empty if the file
    isn't Python."""
    found: dict[int, Statement] = {}
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return found
    rows = source.splitlines()
    around: defaultdict[ast.AST, set[str]] = defaultdict(set)
    for node in ast.walk(tree):  # Outer statements come before those inside them.
        if form := _form_of_its_body(node):
            for inner in [*ast.walk(node)][1:]:
                around[inner].add(form)
        if isinstance(node, ast.stmt):
            parts = _own_parts(node)
            if not parts:
                continue
            last = max(part.end_lineno or node.lineno for part in parts)
            text = " ".join(" ".join(rows[node.lineno - 1 : last]).split())
            statement = Statement(text, _forms(node, parts) | (around[node] or {"top level"}))
            found.update(dict.fromkeys(range(node.lineno, last + 1), statement))
    return found


def _alone(text: str) -> Statement:
    for completed in (text, f"{text} pass", f"{text}:\n pass", f"if True: pass\n{text} pass"):
        found = _statements(completed)
        if found:
            return Statement(text, [*found.values()][-1].forms - {"top level"})
    return Statement(text, frozenset())


def _form_of_its_body(node: ast.AST) -> str | None:
    """Returns a form that all statements inside of this one have, or None."""
    if isinstance(node, ast.If) and any(isinstance(it, ast.Mod) for it in ast.walk(node.test)):
        return "every n"
    if isinstance(node, ast.For | ast.While | ast.AsyncFor):
        return "in a loop"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if "capture" in node.name:
            return "in a capture"
        in_test = "in a test" if node.name[:5] == "test_" else "in a function"
        return "in forward" if node.name == "forward" else in_test
    return None


def _own_parts(node: ast.stmt) -> list[ast.expr]:
    """Returns the expressions that the statement evaluates itself, without its body."""
    return [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)] + [
        item.context_expr for item in getattr(node, "items", []) if isinstance(item, ast.withitem)
    ]


def _forms(node: ast.stmt, parts: list[ast.expr]) -> frozenset[str]:
    forms = {KINDS[type(node)]} if type(node) in KINDS else set()
    for part in parts:
        for inner in ast.walk(part):
            if type(inner) in KINDS:
                forms.add(KINDS[type(inner)])
            elif isinstance(inner, ast.Call):
                made = _made_by(inner)
                if made == "literal":
                    forms.add(made)
                if _name(inner.func) in ("to", "cuda"):
                    forms.add(f"moves {_made_by(inner.func)}")
            elif isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Tuple):
                indices = [one for one in inner.slice.elts if not isinstance(one, ast.Slice)]
                if len(indices) > 1:
                    forms.add("many indices")
    return frozenset(forms)


def _made_by(value: ast.expr) -> str:
    """Returns how the value at the start of a chain of methods was made: `literal`, `values`,
    `array`, `factory` or `something`."""
    while True:
        name = _name(value.func) if isinstance(value, ast.Call) else ""
        if isinstance(value, ast.Call) and name in MAKES_TENSORS:
            return "literal" if value.args and _is_literal(value.args[0]) else "values"
        if name == "from_numpy":
            return "array"
        if name in FACTORIES or (isinstance(value, ast.Call) and _is_of_factories(value)):
            return "factory"
        if isinstance(value, ast.Call):
            value = value.func
        elif isinstance(value, ast.Attribute):
            value = value.value
        else:
            return "something"


def _is_of_factories(call: ast.Call) -> bool:
    """Returns True for a function of torch whose arguments are made by a factory:
    `torch.exp(-torch.arange(n) / n)`."""
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    calls = (node for part in call.args for node in ast.walk(part) if isinstance(node, ast.Call))
    return (
        isinstance(module, ast.Name)
        and module.id in ("torch", "th")
        and any(_name(node.func) in FACTORIES for node in calls)
    )


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_literal(values: ast.expr) -> bool:
    """Returns True for constants, and for lists and arithmetic of constants."""
    if isinstance(values, ast.UnaryOp):
        return _is_literal(values.operand)
    if isinstance(values, ast.BinOp):
        return _is_literal(values.left) and _is_literal(values.right)
    if isinstance(values, (ast.List, ast.Tuple)):
        return all(map(_is_literal, values.elts))
    return isinstance(values, ast.Constant)


FACTORIES = {"arange", "linspace", "logspace", "zeros", "ones", "full", "empty", "eye"} | {
    *("rand", "randn", "randint", "randperm", "tril", "triu", "normal"),
}
MAKES_TENSORS = {"tensor", "as_tensor", "asarray", "new_tensor"} | {
    f"{kind}Tensor" for kind in ("Float", "Long", "Int", "Bool", "Half", "Double", "Byte")
}
KINDS: dict[type, str] = {
    ast.If: "if",
    ast.While: "while",
    ast.Assert: "assert",
    ast.For: "for",
    ast.AugAssign: "augmented",
    ast.Return: "return",
    ast.JoinedStr: "f-string",
    ast.IfExp: "conditional",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.DictComp: "comprehension",
    ast.GeneratorExp: "comprehension",
}
