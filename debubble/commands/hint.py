"""`debubble hint KATA`: what could help."""

from __future__ import annotations

import typer

from debubble.workshop.kata_files.catalogue import find_catalogue

from .refusal import refusing


def hint(name: str) -> None:
    """Print the kata's hint."""
    with refusing():
        kata = find_catalogue().kata(name)
        typer.secho(f"{kata.title} ({kata.relative(kata.stub_path)})", bold=True)
        typer.echo(f"\n{kata.hint}")
