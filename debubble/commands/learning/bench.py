"""`debubble bench KATA`: what a call of your code costs, beside ours and the stub's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from debubble.exercises.kata_files.catalogue import Kata
from debubble.timeline.comparison import COUNT_WORDS

from ..refusal import accelerator_of, refuse, refusing
from .learner import Learner

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator
    from debubble.exercises.common.subject import Common
    from debubble.exercises.running.under_test import KataCode


def bench(word: str | None, device: str) -> None:
    """Prints the cost of one call of the stub, of our solution and of the learner's code: counts
    and modelled time on sim, ratios of measured times on a GPU. Leaves the learner's code out, with
    a sentence, until it has solved the kata."""
    from debubble.exercises.running.cost import inputs_of, measurable
    from debubble.exercises.running.under_test import (
        Implementation,
        KataCode,
        LoadError,
        learner,
        solution,
    )

    with refusing():
        found = Learner()
        kata = found.choose(word)
        katas = measurable(found.catalogue)
    if kata not in katas:
        names = ", ".join(kata.name for kata in katas) or "no kata"
        refuse(f"{kata.name} has no cost that grows with a step. These have one: {names}.")
    accelerator = accelerator_of(device)
    codes = {
        "ours": KataCode(solution(kata)),
        "the stub": KataCode(Implementation(kata, "learner", kata.stub_path)),
    }
    solved = found.standings[kata.name].solved
    if solved:
        codes["yours"] = KataCode(learner(kata))
    try:
        _print(kata, codes, accelerator, inputs_of(kata))
    except LoadError as error:
        refuse(str(error))
    if not solved:
        typer.echo(
            f"\nYours is measured once the kata is solved: `debubble watch {kata.name}` runs its "
            "tests."
        )


def _print(
    kata: Kata, codes: dict[str, KataCode], accelerator: Accelerator, common: Common
) -> None:
    from debubble.exercises.running.cost import cost_of, ratios_in_turns

    typer.echo(f"{kata.title}: one call with {common.sizes[1]} items")
    typer.echo(f"on {accelerator.description}\n")
    costs = [cost_of(code, accelerator, common) for code in codes.values()]
    rows = [
        (words, [f"{cost.counts[count]:,}" for cost in costs])
        for count, (_, words) in COUNT_WORDS.items()
    ]
    rows.append(("bytes uploaded", [f"{cost.sent:,}" for cost in costs]))
    rows = [(name, figures) for name, figures in rows if {*figures} != {"0"}]
    rows.append(("Python instructions", [f"{cost.instructions:,}" for cost in costs]))
    if accelerator.modelled:
        rows.append(("modelled µs", [f"{cost.microseconds:,.1f}" for cost in costs]))
    else:
        ratios = ratios_in_turns([*codes.values()], accelerator, common)
        rows.append(("time, in times ours", [f"{ratio:.2f}" for ratio in ratios]))
    for name, figures in [("", [*codes]), *rows]:
        typer.echo(f"{name:<22}" + "".join(f"{figure:>12}" for figure in figures))
    if accelerator.modelled:
        typer.echo(
            "\nThe times are modelled. With a GPU, `--device cuda` prints ratios of measured times."
        )
