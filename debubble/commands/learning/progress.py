"""`debubble progress`: how you stand, for you or, with --json, for a program."""

from __future__ import annotations

import json
from itertools import groupby

import typer

from debubble.exercises.kata_files.catalogue import has_become
from debubble.progress import VERSION

from ..refusal import refusing
from .learner import Learner


def progress(as_json: bool) -> None:
    """Prints the learner's progress: a line for each chapter, or with `as_json` one JSON object. It
    runs no learner's code."""
    with refusing():
        learner = Learner()
        if as_json:
            typer.echo(json.dumps(_object(learner), indent=2, ensure_ascii=False))
            return
        for (chapter, system), group in groupby(
            learner.katas, key=lambda kata: (kata.chapter, kata.system)
        ):
            members = [learner.standings[kata.name] for kata in group]
            marks = "".join("✔" if one.solved else "○" if one.begun else "·" for one in members)
            solved = sum(one.solved for one in members)
            tried = sum(one.attempts for one in members)
            hints = sum(one.hints for one in members)
            counts = f"{solved:>2} of {len(members):>2} solved, {tried} attempts, {hints} hints"
            typer.echo(f" {chapter} {system:<12} {marks:<12} {counts}")
        typer.echo(f"{learner.solved} of {len(learner.katas)} solved.")
        for gone, standing in learner.retired.items():
            before = f", and you had {'solved' if standing.solved else 'begun'} it"
            typer.echo(f"{gone.name} {has_become(gone)}{before}.")


def show_on_board(name: str) -> None:
    """Records the name that a board shows for the learner: without it a board shows a number."""
    with refusing():
        Learner().progress.add("board", name=name.strip())
    shown = f"as {name.strip()}" if name.strip() else "by a number, without a name"
    typer.echo(f"A board shows you {shown}.")


def _object(learner: Learner) -> dict[str, object]:
    current = learner.current
    katas = []
    for kata in learner.katas:
        standing = learner.standings[kata.name]
        katas.append(
            {
                "kata": kata.name,
                "system": kata.system,
                "chapter": kata.chapter,
                "state": learner.state(kata),
                "attempts": standing.attempts,
                "hints": standing.hints,
                "spoiled": standing.spoiled,
            }
        )
    return {
        "version": VERSION,
        "workspace": str(learner.workspace.folder),
        "solved": learner.solved,
        "of": len(learner.katas),
        "current": current.name if current else None,
        "katas": katas,
        "retired": [
            {"kata": gone.name, "became": gone.became, "solved": standing.solved}
            for gone, standing in learner.retired.items()
        ],
        "predictions": [e for e in learner.events if e.get("kind") == "prediction"],
    }
