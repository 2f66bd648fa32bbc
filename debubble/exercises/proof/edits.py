"""The small edits that make mutants of a piece of code: edits that can change its result."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple

from .order import order_matters
from .unnoticed import NO_RESULT, asks_the_accelerator, branch_not_taken, changes_no_result

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
            "is not": "is", "is": "is not", "not in": "in", "in": "not in"}  # fmt: skip
OPERATORS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"),
             ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
             ast.And: ("and", "or"), ast.Or: ("or", "and")}  # fmt: skip
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)
EXCHANGED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum",
             "any": "all", "all": "any", "amin": "amax", "amax": "amin"}  # fmt: skip
COMMUTATIVE = ("min", "max", "minimum", "maximum", "add", "mul", "isinstance")


class Edit(NamedTuple):
    """A replacement of the text's bytes from `start` to `end` by `new`; `what` describes it."""

    start: int
    end: int
    new: str
    what: str


class Edits:
    def __init__(self, text: bytes, unasked: Collection[str] = ()) -> None:
        """Takes the source text, and in `unasked` the functions that refuse arguments which no test
        passes: calls of them are left alone."""
        self.text = text
        self.unasked = unasked
        self.negated: set[int] = set()
        self.for_effect: set[int] = set()
        """The ids of calls whose result is not used."""
        self.imported = {
            (alias.asname or alias.name).partition(".")[0]
            for part in ast.walk(ast.parse(text))
            if isinstance(part, ast.Import | ast.ImportFrom)
            for alias in part.names
        }
        self.lines = [0]
        """The byte offset at which each line begins."""
        for line in text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def of(self, node: ast.AST) -> Iterator[Edit]:
        """Yields all edits of `node` and its parts, except for types, texts and the messages of
        errors."""
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if changes_no_result(node) or self._is_unasked(node):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.for_effect.add(id(node.value))
        make = getattr(self, f"_{type(node).__name__.lower()}", None)
        if make is not None:
            yield from make(node)
        skipped = ("annotation", "returns", "decorator_list", branch_not_taken(node))
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and name not in skipped:
                yield from self._block(block)
        for name, value in ast.iter_fields(node):
            if name in skipped:
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from self.of(part)

    def _block(self, block: list[ast.stmt]) -> Iterator[Edit]:
        block = [statement for statement in block if not self._is_unasked(statement)]
        for statement in block:
            if _has_effect(statement):
                yield self._instead(statement, "pass", f"drops `{self._short(statement)}`")
        for first, second in itertools.pairwise(block):
            simple = isinstance(first, SIMPLE) and isinstance(second, SIMPLE)
            if simple and not _is_text(first) and order_matters(first, second):
                swapped = f"{self._source(second)}\n{' ' * first.col_offset}{self._source(first)}"
                what = f"`{self._short(second)}` comes before it"
                yield Edit(self._start(first), self._end(second), swapped, what)

    def _with(self, node: ast.With) -> Iterator[Edit]:
        if all(item.optional_vars is None for item in node.items):
            end = self._end(node.items[-1].context_expr)
            yield Edit(self._start(node), end, "if True", f"drops `{self._short(node)}`")

    def _for(self, node: ast.For) -> Iterator[Edit]:
        yield self._instead(node.iter, "()", f"`for {self._short(node.target)}` has no turns")

    def _return(self, node: ast.Return) -> Iterator[Edit]:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            yield self._instead(node.value, "None", "returns None")

    def _if(self, node: ast.If | ast.IfExp | ast.While) -> Iterator[Edit]:
        if asks_the_accelerator(node.test):
            return
        yield self._instead(node.test, "False", f"`{self._short(node.test)}` is never so")
        if not isinstance(node, ast.While):
            yield self._instead(node.test, "True", f"`{self._short(node.test)}` is always so")

    _ifexp = _while = _if

    def _comprehension(self, node: ast.comprehension) -> Iterator[Edit]:
        for test in node.ifs:
            yield self._instead(test, "True", f"`{self._short(test)}` is always so")

    def _compare(self, node: ast.Compare) -> Iterator[Edit]:
        if len(node.ops) == 1:
            for old in COMPARED:  # "is not" before "is"
                between = self.text[self._end(node.left) : self._start(node.comparators[0])]
                if f" {old} ".encode() in between:
                    yield self._operator(node.left, node.comparators[0], old, COMPARED[old])
                    return

    def _binop(self, node: ast.BinOp) -> Iterator[Edit]:
        if type(node.op) in OPERATORS:
            yield self._operator(node.left, node.right, *OPERATORS[type(node.op)])
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod):
            left, right = self._source(node.left), self._short(node.right)
            yield self._instead(node, f"({left})", f"`{right}` is left out of it")

    def _boolop(self, node: ast.BoolOp) -> Iterator[Edit]:
        yield self._operator(node.values[0], node.values[1], *OPERATORS[type(node.op)])

    def _augassign(self, node: ast.AugAssign) -> Iterator[Edit]:
        if type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            yield self._operator(node.target, node.value, f"{old}=", f"{new}=")

    def _unaryop(self, node: ast.UnaryOp) -> Iterator[Edit]:
        if asks_the_accelerator(node.operand):
            return
        self.negated.add(id(node.operand))  # An edit to -2 would be no slip of the hand.
        sign = self.text[self._start(node) : self._start(node.operand)].decode().strip()
        yield self._instead(node, self._source(node.operand), f"drops the `{sign}`")

    def _constant(self, node: ast.Constant) -> Iterator[Edit]:
        if isinstance(node.value, bool):
            yield self._instead(node, str(not node.value), f"{node.value} becomes {not node.value}")
        elif isinstance(node.value, int) and id(node) not in self.negated:
            one_more = str(node.value + 1)
            yield self._instead(node, one_more, f"{self._source(node)} becomes {one_more}")
        elif isinstance(node.value, str) and node.value in EXCHANGED:
            new = EXCHANGED[node.value]
            yield self._instead(node, f'"{new}"', f'"{node.value}" becomes "{new}"')

    def _slice(self, node: ast.Slice) -> Iterator[Edit]:
        for part, side in ((node.lower, "beginning"), (node.upper, "end")):
            if part is not None:
                what = f"`{self._short(node)}` has no {side}"
                yield self._instead(part, "", what)

    def _call(self, node: ast.Call) -> Iterator[Edit]:
        name = node.func
        if isinstance(name, ast.Attribute) and self._gives_a_value(node):
            rest = "" if not (node.args or node.keywords) else "…"
            yield self._instead(node, self._source(name.value), f"drops `.{name.attr}({rest})`")
        called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
        if called in EXCHANGED:
            end, new = self._end(name), EXCHANGED[called]
            yield Edit(end - len(called), end, new, f"`{called}` becomes `{new}`")
        for one, other in itertools.pairwise(node.args if called not in COMMUTATIVE else ()):
            starred = isinstance(one, ast.Starred) or isinstance(other, ast.Starred)
            if not starred and self._source(one) != self._source(other):
                between = self.text[self._end(one) : self._start(other)].decode()
                swapped = f"{self._source(other)}{between}{self._source(one)}"
                what = f"`{self._short(other)}` comes before `{self._short(one)}`"
                yield Edit(self._start(one), self._end(other), swapped, what)
        arguments = sorted([*node.args, *node.keywords], key=self._start)
        for number, argument in enumerate(arguments):
            if isinstance(argument, ast.keyword) and argument.arg not in (None, *NO_RESULT):
                first = self._end(arguments[number - 1]) if number else self._start(argument)
                last = self._end(argument)
                if not number and len(arguments) > 1:
                    last = self._start(arguments[1])
                yield Edit(first, last, "", f"drops `{self._short(argument)}`")

    def _gives_a_value(self, call: ast.Call) -> bool:
        """True if a method of some value is called for its result, so that an edit may keep the
        value and drop the call."""
        first: ast.expr = call.func
        while isinstance(first, ast.Attribute | ast.Call | ast.Subscript):
            first = first.func if isinstance(first, ast.Call) else first.value
        of = call.func.value if isinstance(call.func, ast.Attribute) else call
        is_module = isinstance(of, ast.Name | ast.Attribute) and getattr(first, "id", "") in (
            *self.imported, "self", "cls"
        )  # fmt: skip
        return not is_module and id(call) not in self.for_effect

    def _is_unasked(self, node: ast.AST) -> bool:
        call = node.value if isinstance(node, ast.Expr) else None
        return isinstance(call, ast.Call) and getattr(call.func, "id", "") in self.unasked

    def _operator(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Edit:
        start, end = self._end(left), self._start(right)
        between = self.text[start:end].decode().replace(old, new, 1)
        return Edit(start, end, between, f"`{old}` becomes `{new}`")

    def _instead(self, node: ast.AST, new: str, what: str) -> Edit:
        return Edit(self._start(node), self._end(node), new, what)

    def _source(self, node: ast.AST) -> str:
        return self.text[self._start(node) : self._end(node)].decode()

    def _short(self, node: ast.AST) -> str:
        """Returns the node's source in one line; of a `with` only the part before the first
        colon."""
        source = " ".join(self._source(node).split())
        return source.partition(":")[0] if isinstance(node, ast.With) else source

    def _start(self, node: ast.AST) -> int:
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]  # has a place
        return self.lines[line - 1] + column

    def _end(self, node: ast.AST) -> int:
        line, column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]  # has one
        return self.lines[line - 1] + column


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _has_effect(statement: ast.stmt) -> bool:
    """True if the statement is a call or changes an object, False if it assigns to a local name."""
    if isinstance(statement, ast.Assign):
        return not all(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    return _is_call(statement) or isinstance(statement, ast.AugAssign)
