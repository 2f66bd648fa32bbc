"""Chooses the edits of files to try: a sample that stays the same while other lines change."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from debubble.workshop.proof.edits import Edits

NOT_OF_A_SYSTEM = {
    "measure", "pictures", "katas", "before", "before.py", "bench.py", "text", "checkpoints",
    "__init__.py",
}  # fmt: skip
"""Files that are left out: they measure, draw, chat, read other folders or re-export names, or are
the code before the change."""


class Mutant(NamedTuple):
    file: str
    """The path from the root, with slashes."""
    line: int
    code: str
    """The line's text."""
    edit: str
    """The edit in words: "`<` becomes `<=`"."""
    text: str
    """The whole edited file."""
    within: tuple[str, ...]
    """The classes and functions around the edit, outermost first."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.code, self.edit


def sources(root: Path, folder: str) -> list[str]:
    """Returns the files of `solutions/<folder>` that a system runs on."""
    files = sorted((root / "solutions" / folder).rglob("*.py"))
    return [
        path.relative_to(root).as_posix()
        for path in files
        if not NOT_OF_A_SYSTEM & {*path.relative_to(root).parts}
    ]


def mutants(root: Path, files: Iterable[str], one_in: int) -> list[Mutant]:
    """Returns one in `one_in` edits of each file, in the order of its lines. The choice depends
    only on the line and the edit, so a change of other lines removes none."""
    found: dict[tuple[str, str], Mutant] = {}
    for file in files:
        for mutant in _mutants_of(root, file, one_in):
            found.setdefault((file, mutant.text), mutant)
    return list(found.values())


def _mutants_of(root: Path, file: str, one_in: int) -> Iterator[Mutant]:
    text = (root / file).read_bytes()
    lines = text.decode().splitlines()
    edits = Edits(text)
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for edit in edits.of(node):
            line = 1 + text.count(b"\n", 0, edit.start)
            key = file, lines[line - 1].strip(), edit.what
            if zlib.crc32("\n".join(key).encode()) % one_in:
                continue
            mutated = (text[: edit.start] + edit.new.encode() + text[edit.end :]).decode()
            if _is_python(mutated):
                yield Mutant(file, line, key[1], edit.what, mutated, _around(node, line))


def _around(node: ast.stmt, line: int) -> tuple[str, ...]:
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            is_here = part.lineno <= line <= (part.end_lineno or 0)
            if is_here and isinstance(part, ast.FunctionDef | ast.ClassDef):
                return (node.name, *_around(part, line))
    return (node.name,)


def _is_python(text: str) -> bool:
    try:
        compile(text, "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
