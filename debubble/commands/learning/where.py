"""`debubble` alone: where you are, and what is next."""

from __future__ import annotations

import typer

from ..refusal import refusing
from .learner import Learner, remark


def where() -> None:
    """Prints how many katas are solved, the current one, and the commands that help with it: at
    most ten lines, then one for each file of the learner that is not tested."""
    with refusing():
        learner = Learner()
        kata = learner.current
        typer.secho(f"{learner.solved} of {len(learner.katas)} katas solved.", bold=True)
        if kata is None:
            typer.echo("All of them: `debubble syncs SCRIPT` finds the waits in your own code.")
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
        typer.echo("  debubble --help lists the other commands.")
        for sentence in learner.workspace.remarks(learner.catalogue):
            remark(sentence)


def _line(command: str, does: str) -> None:
    typer.secho(f"  debubble {command:<7}", fg="cyan", nl=False)
    typer.echo(does)
