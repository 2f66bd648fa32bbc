"""`debubble chapters`: your copies of the chapters, and the folder in which they lie."""

from __future__ import annotations

import typer

from debubble.exercises.kata_files.chapter_copies import ChapterCopies

from ..refusal import refusing
from .learner import Learner, remark


def chapters() -> None:
    """Makes or updates the reader's copies of the chapters. Prints only their folder to stdout, so
    that `make lab` can open it; remarks go to stderr."""
    with refusing():
        copies = ChapterCopies(Learner().workspace)
        for sentence in copies.update():
            remark(sentence)
        typer.echo(copies.folder)
