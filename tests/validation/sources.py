"""What a part of a validation rests on: the files that it runs, and whatever these import."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

PACKAGES = ("debubble", "solutions", "katas", "tests")
NO_SOURCE = (".md", ".pyc", ".bak")


class SourceTree:
    """A checkout as it is when this is made: what was looked at once is not read again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._needed: dict[Path, list[Path]] = {}
        self._digests: dict[Path, bytes] = {}

    def hash_of(self, entries: Iterable[str], without: Collection[str] = ()) -> str:
        """SHA-256 over names and contents of the files behind `entries`, files and folders below
        the root. FileNotFoundError for an entry that is not there."""
        whole = hashlib.sha256()
        for path in self.files_behind(entries, without):
            whole.update(f"{path.relative_to(self.root).as_posix()}\0".encode())
            whole.update(self._digest(path))
        return whole.hexdigest()

    def files_behind(self, entries: Iterable[str], without: Collection[str] = ()) -> list[Path]:
        """The entries, every module of ours that they import, the `__init__` and conftest files
        that run before those, and the data in their packages. `without`: marks; a file of tests
        that all have one of them is no entry."""
        found: set[Path] = set()
        entered = (path for entry in entries for path in self._files_of(self.root / entry))
        waiting = [path for path in entered if not _marks_of_all_tests(path) & {*without}]
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting += self._needed_by(path)
        return sorted(found)

    def _needed_by(self, path: Path) -> list[Path]:
        if path not in self._needed:
            imported = [file for name in self._imports(path) for file in self._files_named(name)]
            self._needed[path] = [*imported, *self._beside(path)]
        return self._needed[path]

    def _imports(self, path: Path) -> set[str]:
        """Names of what may be modules of ours, wherever in the file they are imported."""
        folder = path.parent.relative_to(self.root).parts
        names = set()
        for source in _python_in(path):
            for node in ast.walk(ast.parse(source, str(path))):
                if isinstance(node, ast.Import):
                    names.update(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    above = folder[: len(folder) - node.level + 1] if node.level else ()
                    module = ".".join(filter(None, (*above, node.module)))
                    names.update({module, *(f"{module}.{alias.name}" for alias in node.names)})
        return {name for name in names if name.split(".")[0] in PACKAGES}

    def _files_named(self, module: str) -> Iterator[Path]:
        path = self.root.joinpath(*module.split("."))
        yield from filter(Path.exists, (path.with_suffix(".py"), path / "__init__.py"))

    def _beside(self, path: Path) -> Iterator[Path]:
        """Of a module: what Python and pytest run before it, and its package's data."""
        if path.suffix != ".py" or path.relative_to(self.root).parts[0] not in PACKAGES:
            return
        folders = [folder for folder in path.parents if folder.is_relative_to(self.root)]
        for folder in folders:
            yield from filter(Path.exists, (folder / "__init__.py", folder / "conftest.py"))
        for beside in path.parent.iterdir():
            if beside.is_file() and beside.suffix != ".py" and self._counts(beside):
                yield beside
            elif beside.is_dir() and not any(beside.rglob("*.py")):
                yield from self._files_of(beside)

    def _files_of(self, entry: Path) -> list[Path]:
        if entry.is_dir():
            return [path for path in entry.rglob("*") if path.is_file() and self._counts(path)]
        entry.stat()
        return [entry]

    def _counts(self, path: Path) -> bool:
        """False for caches, backups and prose. Folders above the root may be hidden ones."""
        parts = path.relative_to(self.root).parts
        hidden = any(part.startswith((".", "__pycache__")) for part in parts)
        return not hidden and path.suffix not in NO_SOURCE

    def _digest(self, path: Path) -> bytes:
        if path not in self._digests:
            source = _cells(path) if path.suffix == ".ipynb" else path.read_bytes()
            self._digests[path] = hashlib.sha256(source).digest()
        return self._digests[path]


def _marks_of_all_tests(path: Path) -> set[str]:
    """What a file of tests says in `pytestmark`: names, those of arguments among them."""
    if not path.match("test_*.py"):
        return set()
    said = [
        node.value
        for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    nodes = (node for value in said for node in ast.walk(value))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _python_in(path: Path) -> list[str]:
    if path.suffix == ".py":
        return [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        return json.loads(_cells(path))
    return []


def _cells(notebook: Path) -> bytes:
    """The sources of a notebook's code cells as JSON: neither its prose nor what it has shown."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return json.dumps(code).encode()
