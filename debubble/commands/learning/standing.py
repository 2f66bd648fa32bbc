"""`debubble` alone, `debubble list` and `debubble progress`: where you are, and what is next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

import typer

from debubble.exercises.kata_files.catalogue import Kata, has_become
from debubble.exercises.kata_files.typed import typed
from debubble.progress import VERSION

from ..refusal import refusing
from .learner import Learner, remark

MARKS = {"solved": "✔", "begun": "○", "new": "·"}
COLOURS = {"solved": "green", "begun": "yellow"}
CURRENT = "▸"


def where() -> None:
    """Prints how many katas are solved, the current one, and the commands that help with it: at
    most ten lines, then one for each file of the learner that is not tested."""
    with refusing():
        learner = Learner()
        kata = learner.current
        typer.secho(f"{learner.solved} of {len(learner.katas)} katas solved.", bold=True)
        if kata is None:
            typer.echo(
                f"All of them: `{typed('debubble')} syncs SCRIPT` finds the waits in your own code."
            )
        else:
            standing = learner.standings[kata.name]
            about = [kata.effort] if kata.effort else []
            if standing.attempts:
                times = "1 attempt" if standing.attempts == 1 else f"{standing.attempts} attempts"
                about.append(f"{times} so far")
            behind = f" ({', '.join(about)})" if about else ""
            typer.echo(f"Now: {kata.title}, chapter {kata.chapter}{behind}")
            file = learner.workspace.file_of(kata)
            taken = min(standing.hints + 1, len(kata.hints))
            typer.echo()
            if learner.state(kata) == "new":
                _line("next", f"makes your copy of {kata.relative(file)}")
            else:
                _line("open", f"opens {kata.relative(file)}")
            _line("watch", "runs its tests whenever you save")
            _line("hint", f"shows hint {taken} of {len(kata.hints)}")
        _line("list", "shows all katas")
        typer.echo(f"  {typed('debubble')} --help lists the other commands.")
        for sentence in learner.workspace.remarks(learner.catalogue):
            remark(sentence)


def _line(command: str, does: str) -> None:
    typer.secho(f"  {typed('debubble')} {command:<7}", fg="cyan", nl=False)
    typer.echo(does)


def list_katas(word: str | None) -> None:
    """Prints a line for each kata, or for those of one chapter, 80 columns wide."""
    with refusing():
        learner = Learner()
        katas = learner.of_chapter(word) if word else []
        if word and not katas:
            katas = learner.of_chapter(learner.choose(word).chapter)
        current = learner.current
        for (chapter, system), members in _by_chapter(katas or learner.katas):
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


def _by_chapter(katas: Sequence[Kata]) -> Iterator[tuple[tuple[str, str], list[Kata]]]:
    """Yields each chapter's number and system, and its katas."""
    for chapter, group in groupby(katas, key=lambda kata: (kata.chapter, kata.system)):
        yield chapter, list(group)


def progress(as_json: bool) -> None:
    """Prints the learner's progress: a line for each chapter, or with `as_json` one JSON object. It
    runs no learner's code."""
    with refusing():
        learner = Learner()
        if as_json:
            typer.echo(json.dumps(_object(learner), indent=2, ensure_ascii=False))
            return
        for (chapter, system), katas in _by_chapter(learner.katas):
            members = [learner.standings[kata.name] for kata in katas]
            marks = "".join(MARKS[learner.state(kata)] for kata in katas)
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
