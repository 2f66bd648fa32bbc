"""Refuses a command: one sentence on stderr, and exit status 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NoReturn

import typer

from debubble.exercises.kata_files.tables import ExerciseError


def refuse(sentence: str) -> NoReturn:
    typer.secho(sentence, fg="red", err=True)
    raise typer.Exit(2)


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Ends the command with the sentence of an ExerciseError in the block: on stderr, with exit
    status 2."""
    try:
        yield
    except ExerciseError as error:
        refuse(str(error))
