"""Reads the modules of `solutions` as text and tree, to take definitions and imports from them."""

from __future__ import annotations

import ast
import builtins
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..catalogue import Target
from ..tables import ExerciseError

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


class StubError(ExerciseError):
    """The error for a stub that can't be made from its solution and `before`."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `from module import name as alias`, or `import module` when name is ""."""

    module: str
    name: str = ""
    alias: str = ""


class SourceModule:
    """One module of `solutions`: its lines and its top-level statements by name."""

    def __init__(self, name: str, path: Path, root: Path) -> None:
        self.name = name
        self.path = path
        self.root = root
        if not path.is_file():
            raise StubError(f"{path} is not there, but katas.toml names it as {name}")
        text = path.read_text(encoding="utf-8")
        # Python does not end a line at a form feed, but `str.splitlines` does.
        self.lines = [line.rstrip("\n") for line in io.StringIO(text)]
        try:
            self.body = ast.parse(text).body
        except SyntaxError as error:
            place = f"{os.path.relpath(path, root)}, line {error.lineno}"
            raise StubError(f"Python cannot read {place}: {error.msg}") from error
        self.statements = {
            name: statement for statement in self.body for name in defined_names(statement)
        }
        self.imports = dict(self._imports())

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def has_lazy_annotations(self) -> bool:
        return "annotations" in self.imports and self.imports["annotations"].module == "__future__"

    def definition(self, name: str) -> Definition:
        node = self.statements.get(name)
        if not isinstance(node, Definition):
            raise StubError(f"{self.path} defines no function or class {name!r}")
        return node

    def text(self, first: int, last: int) -> str:
        """Returns the module's lines `first` to `last`, both counted from 1 and included."""
        return "\n".join(self.lines[first - 1 : last])

    def statement_text(self, node: ast.stmt) -> str:
        return self.text(first_line(node), last_line(node))

    def _imports(self) -> Iterator[tuple[str, Import]]:
        for statement in self.body:
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    yield bound, Import(alias.name, alias=alias.asname or "")
            elif isinstance(statement, ast.ImportFrom):
                module = self._absolute(statement)
                for alias in statement.names:
                    name = alias.asname or alias.name
                    yield name, Import(module, alias.name, alias.asname or "")

    def _absolute(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = self.name.split(".")
        drop = statement.level - (1 if self.is_package else 0)
        base = parts[: len(parts) - drop] if drop else parts
        return ".".join([*base, *([statement.module] if statement.module else [])])


@cache
def _source_module(name: str, root: Path, changed: int) -> SourceModule:
    return SourceModule(name, Target(name, "").file(root), root)


def source_module(name: str, root: Path) -> SourceModule:
    """Returns the module called `name` below `root`. Reads it again whenever its file has
    changed."""
    path = Target(name, "").file(root)
    return _source_module(name, root, path.stat().st_mtime_ns if path.is_file() else 0)


def first_line(node: ast.stmt) -> int:
    """Returns the number of a statement's first line, decorators included."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def last_line(node: ast.stmt) -> int:
    """Returns the number of a statement's last line."""
    return node.end_lineno or node.lineno


def names_read(code: str) -> list[str]:
    """Returns the names that `code` reads, without those that its own definitions and imports make
    and without builtins, in the order of first use."""
    nodes = list(ast.walk(ast.parse(code)))
    read = [node for node in nodes if isinstance(node, ast.Name)]
    read.sort(key=lambda node: (node.lineno, node.col_offset))
    defined = {name for statement in ast.parse(code).body for name in defined_names(statement)}
    names = dict.fromkeys(node.id for node in read)
    return [name for name in names if name not in defined and not hasattr(builtins, name)]


def defined_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, Definition):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    else:
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]
