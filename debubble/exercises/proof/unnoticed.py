"""The parts of a solution whose edits no test can notice: no mutants are made of them."""

from __future__ import annotations

import ast

NO_RESULT = ("work", "num_warps", "num_stages", "strict")
"""Arguments that change no result: `work` is for sim's clock, launch options may make a GPU faster,
and `strict` has `zip` check that its arguments have one length."""
OF_THE_ACCELERATOR = ("modelled", "has_copy_batch")
"""Attributes that decide between two branches, and are True on sim. Mutants run there, so no test
can notice an edit of the other branch."""


def asks_the_accelerator(test: ast.expr) -> bool:
    """True if a part of the condition is an attribute OF_THE_ACCELERATOR."""
    return any(getattr(part, "attr", "") in OF_THE_ACCELERATOR for part in ast.walk(test))


def branch_not_taken(node: ast.AST) -> str:
    """Returns the branch that sim does not take, "body" or "orelse", if `node` is an `if` about an
    attribute OF_THE_ACCELERATOR or its opposite; otherwise ""."""
    test = node.test if isinstance(node, ast.If | ast.IfExp) else None
    asked, dead = (test.operand, "body") if isinstance(test, ast.UnaryOp) else (test, "orelse")
    return dead if getattr(asked, "attr", "") in OF_THE_ACCELERATOR else ""


def changes_no_result(node: ast.AST) -> bool:
    """True for an argument of NO_RESULT, and for a `Work(...)` call, which describes work for sim's
    clock alone."""
    if isinstance(node, ast.keyword):
        return node.arg in NO_RESULT
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Work"
