"""`debubble open [KATA]`: the file in your editor, or the chapter in JupyterLab."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import typer

from debubble.exercises.kata_files.chapter_copies import ChapterCopies

from ..refusal import refuse, refusing
from .learner import Learner, remark


def open_file(word: str | None, chapter: bool) -> None:
    """Opens the file or the chapter, and exits with the editor's status."""
    with refusing():
        learner = Learner()
        kata = learner.choose(word)
        if chapter or (word or "").endswith(".ipynb"):
            for sentence in ChapterCopies(learner.workspace).update():
                remark(sentence)
            notebook = learner.chapter_file(kata)
            if notebook is None:
                refuse(f"chapter {kata.chapter} has no notebook in chapters/")
            command, path = [sys.executable, "-m", "jupyterlab"], notebook
        else:
            path = learner.begin(kata)
            editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
            if not editor:
                refuse(f"EDITOR names no editor: open {kata.relative(path)} with yours")
            command = shlex.split(editor)
        typer.echo(f"{' '.join(command)} {kata.relative(path)}")
        try:
            status = subprocess.run([*command, str(path)], cwd=kata.root).returncode
        except OSError as error:
            refuse(f"{command[0]} could not be started ({error.strerror}): EDITOR names it")
    raise typer.Exit(status)
