"""`debubble next`: begins the next kata, as a copy in the learner's workspace."""

from __future__ import annotations

import typer

from ..refusal import refusing
from .learner import Learner


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
            typer.echo(f"You need to know {kata.needs}.\n")
        chapter = learner.chapter_file(kata)
        if chapter:
            typer.echo(f"  chapter  {kata.relative(chapter)}")
        typer.secho(f"  edit     {kata.relative(path)}", fg="cyan")
        typer.secho("  test     debubble watch, or debubble run", fg="cyan")
        typer.secho("  stuck?   debubble hint", fg="cyan")
