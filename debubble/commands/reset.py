"""`debubble reset KATA`: brings an exercise back, and never drops a learner's work."""

from __future__ import annotations

import difflib

import typer

from debubble.workshop.kata_files.catalogue import Kata, find_catalogue
from debubble.workshop.kata_files.stub_files import StubFiles, StubState
from debubble.workshop.kata_files.stubs import generate

from .refusal import refuse, refusing

MOST_LINES = 30
"""Of a longer diff only so much is shown; the backup has everything."""


def reset(name: str, yes: bool) -> None:
    """Write the kata's stub. Edits are shown, asked about, and kept beside it."""
    with refusing():
        catalogue = find_catalogue()
        kata = catalogue.kata(name)
        files = StubFiles(catalogue)
        state = files.state(kata)
        path = kata.relative(kata.stub_path)
        if state is StubState.CURRENT:
            typer.echo(f"{path} is as it was: nothing to reset.")
            return
        if state is StubState.EDITED:
            show_edits(kata)
            if not (yes or agreed(path)):
                typer.echo("Nothing was changed.")
                return
        backup = files.restore(kata)
        typer.secho(f"{path} is as it was.", fg="green")
        if backup is not None:
            typer.echo(f"Your version is in {kata.relative(backup)}.")


def show_edits(kata: Kata) -> None:
    """What the reset would take away (-) and bring back (+)."""
    edited = kata.stub_path.read_text(encoding="utf-8").splitlines()
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
        refuse(f"{path} has your edits and nobody answered: `--yes` resets it without asking")
