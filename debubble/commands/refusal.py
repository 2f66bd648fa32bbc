"""Refuses a command: one sentence on stderr, and exit status 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import typer

import debubble
from debubble.exercises.kata_files.tables import ExerciseError

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator


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


def accelerator_of(device: str) -> Accelerator:
    """Returns the accelerator of that name, or ends the command with the sentence that says why
    this machine or process can't have it."""
    try:
        return debubble.accelerator(device)
    except (RuntimeError, ValueError) as error:
        refuse(str(error))
