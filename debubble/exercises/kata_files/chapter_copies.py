"""A reader's copies of the chapters: JupyterLab saves to the workspace, never to files in git.

my/chapters/<chapter>.ipynb   the notebook that the reader opens, runs and writes in
my/chapters/.stored/          each chapter as it was when its copy was made
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .progress import Progress
from .stubs.files import write_whole
from .workspace import Workspace, cannot_write

LINK = re.compile(r"\]\((\.\./[^)]*)\)")


class ChapterCopies:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.originals = workspace.root / "chapters"

    @property
    def folder(self) -> Path:
        return self.workspace.chapters

    def update(self) -> list[str]:
        """Makes the missing copies, and replaces a copy whose chapter has changed if the reader has
        only run it. Keeps a copy in which the reader wrote, and returns a sentence about each such
        copy.

        Raises ExerciseError if a file can't be written.
        """
        # The workspace's progress file also stores the reader's predictions, so it has to exist.
        Progress(self.workspace).add_all([])
        return [
            remark for path in sorted(self.originals.glob("*.ipynb")) for remark in self._of(path)
        ]

    def _of(self, original: Path) -> Iterator[str]:
        copy, stored = self.folder / original.name, self.folder / ".stored" / original.name
        text = self._moved(original.read_text(encoding="utf-8"))
        if copy.exists() and _sources(_read(stored)) == _sources(text):
            return
        if copy.exists() and _sources(_read(copy)) != _sources(_read(stored)):
            place = os.path.relpath(copy, self.workspace.root)
            yield (
                f"{place} has your edits, and the chapter has changed since: it stays as it is. "
                "Rename it, and the next start brings the new one."
            )
            return
        try:
            for path in (copy, stored):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, text.encode())
        except OSError as error:
            raise cannot_write(os.path.relpath(copy, self.workspace.root), error) from None

    def _moved(self, text: str) -> str:
        """Returns the notebook with relative links changed to lead to the same files from the
        copy's folder."""
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                source = LINK.sub(self._from_the_copy, "".join(cell["source"]))
                cell["source"] = source.splitlines(keepends=True)
        return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"

    def _from_the_copy(self, link: re.Match[str]) -> str:
        path, mark, anchor = link[1].partition("#")
        moved = Path(os.path.relpath(self.originals / path, self.folder)).as_posix()
        return f"]({moved}{mark}{anchor})"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _sources(text: str) -> list[tuple[str, str]] | None:
    """Returns the type and source of each cell, the part that a reader writes, without outputs and
    the metadata that JupyterLab adds. Returns None if `text` is no notebook."""
    try:
        cells = json.loads(text)["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, KeyError, TypeError):
        return None
