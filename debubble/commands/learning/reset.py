"""`debubble reset [KATA]`: restores an exercise, and never drops a learner's work."""

from __future__ import annotations

import difflib
from pathlib import Path

import typer

from debubble.exercises.kata_files.catalogue import Kata
from debubble.exercises.kata_files.stubs.files import StubFiles, StubState
from debubble.exercises.kata_files.stubs.generate import generate

from ..refusal import refuse, refusing
from .learner import Learner

MOST_LINES = 30
"""The most lines of a diff that are shown; the backup has everything."""


def reset(word: str | None, yes: bool) -> None:
    """Writes the exercise into the learner's file. Shows edits, asks about them, and saves them
    beside the file."""
    with refusing():
        learner = Learner()
        kata = learner.choose(word)
        files = StubFiles(learner.catalogue)
        file = learner.workspace.file_of(kata)
        state = files.state(kata, file)
        path = kata.relative(file)
        if state is StubState.CURRENT:
            typer.echo(f"{path} has no edits: nothing to reset.")
            return
        if state is StubState.EDITED:
            show_edits(kata, file)
            if not (yes or agreed(path)):
                typer.echo("Nothing was changed.")
                return
        try:
            backup = files.restore(kata, file)
            if file != kata.stub_path:
                learner.workspace.keep_origin(kata)
        except OSError as error:
            refuse(f"{path} can't be reset ({error.strerror or error}): nothing of yours is lost")
        typer.secho(f"{path} is reset.", fg="green")
        if backup is not None:
            typer.echo(f"Your version is in {kata.relative(backup)}.")
        if state is StubState.EDITED:
            learner.remember("reset", kata)


def show_edits(kata: Kata, path: Path) -> None:
    """Prints what a reset of the file would do: the edited lines that go (-) and the lines of the
    exercise that come back (+), at most MOST_LINES."""
    edited = path.read_text(encoding="utf-8", errors="replace").splitlines()
    diff = list(difflib.unified_diff(edited, generate(kata).splitlines(), lineterm="", n=1))[2:]
    colours = {"-": "red", "+": "green"}
    for line in diff[:MOST_LINES]:
        typer.secho(f"  {line}", fg=colours.get(line[:1]))
    if len(diff) > MOST_LINES:
        typer.echo(f"  … and {len(diff) - MOST_LINES} lines more")


def agreed(path: str) -> bool:
    try:
        return typer.confirm(f"\n{path} has your edits (-). Reset it?", default=False)
    except typer.Abort:
        refuse(f"{path} has your edits and there was no answer: `--yes` resets it without asking")
