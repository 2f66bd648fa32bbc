"""`debubble check --mutants`: finds every small edit of a solution that no test of its kata
notices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from debubble.exercises.kata_files.catalogue import Catalogue, Kata, find_catalogue

from .check import ShowProgress, with_progress
from .refusal import accelerator_of, refusing

if TYPE_CHECKING:
    from debubble.exercises.proof.survivors import Mutation


def check_mutants(names: list[str], device: str) -> None:
    """Tries the mutants of the katas with these names, or of all. Exits with status 1 when a mutant
    survives for which surviving_mutants.toml has no reason, or when that file names a mutant that
    doesn't survive."""
    console = Console(highlight=False)
    with refusing():
        catalogue = find_catalogue()
        katas = [catalogue.kata(name) for name in names] or [*catalogue.katas]
        accelerator = accelerator_of(device)
        work = partial(_try, catalogue, katas, accelerator.name)
        mutations = with_progress(console, accelerator, work)
    for mutation in mutations:
        console.print(f"{mutation.kata.name}: {_in_words([mutation])}")
        for survivor in mutation.unexplained:
            console.print(Text(f"✘ {survivor} passes all tests", style="red"), soft_wrap=True)
        if mutation.problem:
            console.print(Text(f"✘ {mutation.problem}", style="red"), soft_wrap=True)
    if any(mutation.unexplained or mutation.problem for mutation in mutations):
        raise typer.Exit(1)
    console.print(Text(f"{_in_words(mutations)}. Each survivor has a reason.", style="green"))


def _in_words(mutations: Sequence[Mutation]) -> str:
    """Returns a summary such as `20 of 23 mutants fail, 2 are equivalent, 1 may pass`."""
    tried = sum(mutation.tried for mutation in mutations)
    survive = sum(len(mutation.survivors) for mutation in mutations)
    same = sum(len(mutation.equivalent) for mutation in mutations)
    others = sum(len(mutation.explained) for mutation in mutations)
    words = [f"{tried - survive} of {tried} mutants fail"]
    words += [f"{same} are equivalent"] if same else []
    words += [f"{others} may pass"] if others else []
    return ", ".join(words)


def _try(
    catalogue: Catalogue, katas: list[Kata], device: str, progress: ShowProgress
) -> list[Mutation]:
    # The mutants need pytest, which users without katas may lack.
    from debubble.exercises.proof.survivors import mutate

    return mutate(catalogue, katas, device, progress)
