"""Finds files in the katas' folders that belong to no kata, such as one left over from a
renaming."""

from __future__ import annotations

from collections.abc import Iterator

from .attempts import ATTEMPT_SUFFIXES
from .catalogue import Catalogue

ALWAYS_FINE = {"__init__.py", "conftest.py", "given.py"}
RECORDED = "recorded"
"""The folder of a system's recorded programs."""


def stray_files(catalogue: Catalogue) -> Iterator[str]:
    """Yields one sentence for each file that no kata of the catalogue owns: Python files in
    `katas/`, and wrong attempts."""
    root = catalogue.root
    owned = {path for kata in catalogue.katas for path in (kata.stub_path, kata.test_path)}
    for path in sorted((root / "katas").rglob("*.py")):
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        fine = path.name in ALWAYS_FINE or path.parent.name == RECORDED
        if path not in owned and not fine and not hidden:
            yield (
                f"{path.relative_to(root)} belongs to no kata: "
                "list it in katas/katas.toml, or remove it"
            )
    folders = {kata.attempts_folder for kata in catalogue.katas}
    for path in sorted((root / "tests" / "wrong_attempts").rglob("*.*")):
        known = path.parent in folders or path.name in ALWAYS_FINE
        if path.suffix in ATTEMPT_SUFFIXES and not known:
            yield f"{path.relative_to(root)} is an attempt at no kata: is its folder's name right?"
