"""`debubble update [KATA]`: merges our changes to an exercise into a learner's copy."""

from __future__ import annotations

import re

import typer

from debubble.exercises.kata_files.catalogue import Kata, has_become
from debubble.exercises.kata_files.merge import Both, Lines, in_common, merge
from debubble.exercises.kata_files.stubs.files import free_backup, write_whole
from debubble.exercises.kata_files.stubs.generate import generate
from debubble.exercises.kata_files.stubs.given import given_text, with_given_imported
from debubble.exercises.kata_files.tables import ExerciseError
from debubble.exercises.kata_files.workspace import cannot_write

from ..refusal import refusing
from .learner import Learner, remark

GIVEN = re.compile(r"\n\n# region Given: .*# endregion\n", re.DOTALL)
"""The given code in an older exercise. Newer ones import it, and the learner's code may use all of
it."""


def update(word: str | None) -> None:
    """Merges our changes into every copy, or that of one kata. Where both have changed the same
    lines it asks the learner; without an answer the copy stays as it is, and the exit status is
    1."""
    with refusing():
        learner = Learner()
        katas = [learner.choose(word)] if word else learner.katas
        copies = [kata for kata in katas if learner.workspace.has_copy(kata)]
        waiting = []
        for kata in copies:
            try:
                _update(learner, kata)
            except (ExerciseError, typer.Abort) as error:
                waiting.append(kata)
                place = kata.relative(learner.workspace.copy_of(kata))
                asked = f"\n{place} is unchanged: `debubble update {kata.name}` asks again."
                remark(str(error) or asked)
        for gone in learner.retired if not word else ():
            copy = learner.workspace.copy_of(gone)
            if copy.exists():
                remark(f"{learner.workspace.shown(copy)} stays: {gone.name} {has_become(gone)}.")
    if waiting:
        raise typer.Exit(1)
    typer.secho(f"Up to date: {len(copies)} of your katas.", fg="green")


def _update(learner: Learner, kata: Kata) -> None:
    """Merges our changes into the learner's copy of a kata, and saves the copy as it was beside it.
    Raises ExerciseError if the copy can't be read or written, Abort if the learner gives no
    answer."""
    workspace = learner.workspace
    path, ours = workspace.copy_of(kata), generate(kata)
    place = kata.relative(path)
    try:
        theirs = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExerciseError(f"{place} can't be read, and is unchanged: {error}") from None
    origin = workspace.origin_of(kata)
    base = in_common(theirs, ours) if origin is None else origin
    parts = merge(*_without_given(base, theirs), ours)
    text = "".join(line for part in parts for line in _chosen(part, place))
    text = with_given_imported(text, kata, given_text(learner.catalogue.of_system(kata.system)))
    try:
        if text != theirs:
            backup = free_backup(path)
            write_whole(backup, theirs.encode())
            write_whole(path, text.encode())
            typer.echo(f"{place} has our changes; your earlier version is in {backup.name}.")
        workspace.keep_origin(kata)
    except OSError as error:
        raise cannot_write(place, error) from None


def _without_given(origin: str, theirs: str) -> tuple[str, str]:
    """Returns an older exercise and the learner's copy without the given code at their ends, which
    is now imported. Returns both as they are if the learner changed it."""
    given = GIVEN.search(origin)
    if given is None or given[0] not in theirs:
        return origin, theirs
    return origin.replace(given[0], ""), theirs.replace(given[0], "")


def _chosen(part: Lines | Both, place: str) -> Lines:
    if not isinstance(part, Both):
        return part
    typer.secho(f"\n{place}: you and we changed the same lines.", bold=True)
    for sign, colour, lines in (("yours", "red", part.theirs), ("ours", "green", part.ours)):
        typer.secho(sign, dim=True)
        for line in lines:
            typer.secho(f"  {line}", fg=colour, nl=not line.endswith("\n"))
    answer = ""
    while answer not in ("y", "o", "b"):
        answer = typer.prompt("Keep (y)ours, take (o)urs, or (b)oth?", default="y")[:1].lower()
    taken = {"y": part.theirs, "o": part.ours, "b": [*part.theirs, *part.ours]}
    return taken[answer]
