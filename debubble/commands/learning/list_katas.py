"""`debubble list`: all katas by chapter, their state, and how long they take."""

from __future__ import annotations

from itertools import groupby

import typer

from ..refusal import refusing
from .learner import Learner

MARKS = {"solved": "✔", "begun": "○", "new": "·"}
COLOURS = {"solved": "green", "begun": "yellow"}
CURRENT = "▸"


def list_katas(word: str | None) -> None:
    """Prints a line for each kata, or for those of one chapter, 80 columns wide."""
    with refusing():
        learner = Learner()
        katas = learner.of_chapter(word) if word else []
        if word and not katas:
            katas = learner.of_chapter(learner.choose(word).chapter)
        current = learner.current
        for (chapter, system), group in groupby(
            katas or learner.katas, key=lambda kata: (kata.chapter, kata.system)
        ):
            members = list(group)
            solved = sum(learner.standings[kata.name].solved for kata in members)
            typer.secho(f"{chapter} {system}: {solved} of {len(members)} solved", bold=True)
            for kata in members:
                state = learner.state(kata)
                mark = CURRENT if kata == current else MARKS[state]
                minutes = f"{kata.minutes:>3} min" if kata.minutes else ""
                title = f"{kata.title} (optional)" if kata.optional else kata.title
                line = f" {mark} {kata.name:<23} {title:<36} {kata.difficulty:<6} {minutes}"
                typer.secho(line.rstrip(), fg=COLOURS.get(state))
        typer.echo(f"{learner.solved} of {len(learner.katas)} solved.  ", nl=False)
        typer.echo("✔ solved  ○ begun  ▸ the current one")
