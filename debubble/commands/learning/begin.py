"""`debubble next`, `debubble open` and `debubble chapters`: your copies, begun or opened."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap

import typer

from debubble.exercises.kata_files.chapter_copies import ChapterCopies
from debubble.exercises.kata_files.stubs.generate import WIDTH
from debubble.exercises.kata_files.typed import typed

from ..refusal import refuse, refusing
from .learner import Learner, remark


def next_kata(word: str | None) -> None:
    """Begins the kata that `word` means, or the current one: makes the learner's copy, and prints
    the task and the file to edit."""
    with refusing():
        learner = Learner()
        if not word and learner.current is None:
            typer.secho(f"All {len(learner.katas)} katas are solved.", fg="green")
            return
        kata = learner.choose(word)
        path = learner.begin(kata)
        if word:  # From now on it is the current kata.
            learner.remember("begun", kata)
        about = f" ({kata.effort})" if kata.effort else ""
        typer.secho(f"{kata.title}{about}", bold=True)
        typer.echo(f"\n{kata.task}\n")
        if kata.needs:
            needed = " ".join(f"You need to know {kata.needs}.".split())
            typer.echo(f"{textwrap.fill(needed, WIDTH)}\n")
        chapter = learner.chapter_file(kata)
        if chapter:
            typer.echo(f"  chapter  {kata.relative(chapter)}")
        typer.secho(f"  edit     {kata.relative(path)}", fg="cyan")
        debubble = typed("debubble")
        typer.secho(f"  test     {debubble} watch, or {debubble} run", fg="cyan")
        typer.secho(f"  stuck?   {debubble} hint", fg="cyan")


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


def chapters() -> None:
    """Makes or updates the reader's copies of the chapters. Prints only their folder to stdout, so
    that `make lab` can open it; remarks go to stderr."""
    with refusing():
        copies = ChapterCopies(Learner().workspace)
        for sentence in copies.update():
            remark(sentence)
        typer.echo(copies.folder)
