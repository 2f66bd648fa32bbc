"""`debubble lesson SYSTEM [SITE]`: shows what a system changed, as the difference of two files."""

from __future__ import annotations

import typer

from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.kata_files.lessons import find_lessons

from .refusal import refusing

COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def lesson(system: str, site: str | None) -> None:
    """Prints the idea and the diff of each lesson of `system`, or only of its place `site`."""
    with refusing():
        for number, found in enumerate(find_lessons(find_catalogue().root, system, site)):
            if number:
                typer.echo()
            typer.secho(f"{found.name}: {found.changed_lines} changed lines", bold=True)
            typer.echo(f"{found.idea}\n")
            for place, line in enumerate(found.diff()):
                is_head = place < 2
                typer.secho(line, fg=None if is_head else COLOURS.get(line[:1]), bold=is_head)
