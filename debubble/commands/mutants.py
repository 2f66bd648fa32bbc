"""`debubble check --mutants`: every small edit of a solution that no test of its kata notices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from debubble.workshop.kata_files.catalogue import Catalogue, Kata, find_catalogue

from .check import Shown, accelerator_of, with_progress
from .refusal import refusing

if TYPE_CHECKING:
    from debubble.workshop.proof.survivors import Mutation


def check_mutants(names: list[str], device: str) -> None:
    """Of the katas with these names, or of all. Exit with status 1 when a mutant survives for which
    equivalent_mutants.toml has no reason."""
    console = Console(highlight=False)
    with refusing():
        catalogue = find_catalogue()
        katas = [catalogue.kata(name) for name in names] or [*catalogue.katas]
        accelerator = accelerator_of(device)
        work = partial(_try, catalogue, katas, accelerator.name)
        mutations = with_progress(console, accelerator, work)
    for mutation in mutations:
        failed, explained = mutation.tried - len(mutation.survivors), len(mutation.explained)
        line = f"{mutation.kata.name}: {failed} of {mutation.tried} mutants fail"
        console.print(f"{line}, {explained} may pass" if explained else line)
        for survivor in mutation.unexplained:
            console.print(Text(f"✘ {survivor} passes all tests", style="red"), soft_wrap=True)
        if mutation.problem:
            console.print(Text(f"✘ {mutation.problem}", style="red"), soft_wrap=True)
    if any(mutation.unexplained or mutation.problem for mutation in mutations):
        raise typer.Exit(1)
    tried = sum(mutation.tried for mutation in mutations)
    console.print(Text(f"{tried} mutants: each fails, or may pass for a reason.", style="green"))


def _try(catalogue: Catalogue, katas: list[Kata], device: str, progress: Shown) -> list[Mutation]:
    # It needs pytest, which whoever has no katas need not have.
    from debubble.workshop.proof.survivors import mutate

    return mutate(catalogue, katas, device, progress)
