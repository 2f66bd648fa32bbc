"""Which edits of which files are tried: a sample that stays the same while other lines change."""

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
"""What measures, draws, chats, reads others' folders or hands on names, and the code as it was."""


class Mutant(NamedTuple):
    file: str
    """From the root, with slashes."""
    line: int
    code: str
    """That line, as it is there."""
    edit: str
    """What is done to it: "`<` becomes `<=`"."""
    text: str
    """The whole file, edited."""
    within: tuple[str, ...]
    """The classes and functions around it, from outside."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.code, self.edit


def sources(root: Path, folder: str) -> list[str]:
    """The files of `solutions/<folder>` that a system runs on."""
    files = sorted((root / "solutions" / folder).rglob("*.py"))
    return [
        path.relative_to(root).as_posix()
        for path in files
        if not NOT_OF_A_SYSTEM & {*path.relative_to(root).parts}
    ]


def mutants(root: Path, files: Iterable[str], one_in: int) -> list[Mutant]:
    """One in so many edits of each file, in the order of its lines. Which ones is settled by the
    line and the edit alone: another line that is changed takes none away."""
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
