"""`debubble hint [KATA]`: the next step of help, up to nearly the answer."""

from __future__ import annotations

import typer

from ..refusal import refuse, refusing
from .learner import Learner


def hint(word: str | None, step: int | None = None) -> None:
    """Prints the next step of a kata's hint that was not shown yet, or step `step`, and records it.
    After the last step it prints all of them again."""
    with refusing():
        learner = Learner()
        kata = learner.choose(word)
        steps = len(kata.hints)
        taken = learner.standings[kata.name].hints
        if step is not None and not 1 <= step <= steps:
            refuse(f"there is no step {step} of the hint for {kata.name}: it has {steps}")
        wanted = step or taken + 1
        shown = [wanted] if wanted <= steps else [*range(1, steps + 1)]
        path = learner.workspace.file_of(kata)
        typer.secho(f"{kata.title} ({kata.relative(path)})", bold=True)
        for number in shown:
            heading = f"Hint {number} of {steps}" if steps > 1 else "Hint"
            typer.secho(f"\n{heading}", fg="cyan")
            typer.echo(kata.hints[number - 1])
        remembered = shown[-1] <= taken or learner.remember("hint", kata, step=shown[-1])
        if shown[-1] < steps:
            command = "debubble hint"
            if not remembered:
                command = f"debubble hint {kata.name} --step {shown[-1] + 1}"
            typer.secho(f"\n`{command}` shows the next step.", fg="cyan")
