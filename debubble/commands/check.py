"""`debubble check`: proves the katas, as a table and a sentence for each problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from debubble.exercises.kata_files.catalogue import Catalogue, Kata, find_catalogue
from debubble.exercises.kata_files.stubs.files import StubFiles

from .refusal import accelerator_of, refusing

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator
    from debubble.exercises.proof.verdicts import Verdict

Result = TypeVar("Result")
ShowProgress = Callable[[int, int, str], None]


FEW = (
    "Of each kata one wrong attempt of each kind was tried, by the tests that it must fail. "
    "`debubble check --every-attempt` tries all attempts by all tests, and so does "
    "`debubble check` with a kata's name."
)


def check(
    names: list[str], device: str, write_stubs: bool, pristine: bool, every_attempt: bool
) -> None:
    """Proves the katas with these names, or all. Exits with status 1 when any claim does not hold.

    write_stubs:   first write the stubs of all katas; without names it then stops without a proof.
    every_attempt: try all wrong attempts also without names, and not one of each kind.
    """
    console = Console(highlight=False)
    with refusing():
        catalogue = find_catalogue()
        if write_stubs:
            _write_stubs(catalogue)
            if not names:
                return
        katas = [catalogue.kata(name) for name in names] or [*catalogue.katas]
        few = not (names or every_attempt)
        work = partial(_prove, catalogue, accelerator_of(device).name, pristine, katas, few)
        verdicts = with_progress(console, accelerator_of(device), work)
    console.print(_table(katas, verdicts))
    for verdict in verdicts:
        if verdict.note:
            console.print(Text(verdict.note, style="yellow"), soft_wrap=True)
    problems = [verdict for verdict in verdicts if not verdict.holds]
    for verdict in problems:
        about = f"{verdict.kata}, {verdict.subject}" if verdict.kata else verdict.subject
        console.print(Text(f"✘ {about}: {verdict.problem}", style="red"), soft_wrap=True)
    if problems:
        raise typer.Exit(1)
    if few:
        console.print(Text(FEW), soft_wrap=True)
    console.print(Text(f"All {len(verdicts)} claims hold.", style="green"))


def _write_stubs(catalogue: Catalogue) -> None:
    written = StubFiles(catalogue).write_all()
    for path in written:
        typer.echo(f"wrote {path.relative_to(catalogue.root)}")
    if not written:
        typer.echo("No stub is missing or older than its solution.")
    typer.echo("`debubble check` proves the katas.")


def _prove(
    catalogue: Catalogue,
    device: str,
    pristine: bool,
    katas: list[Kata],
    few_attempts: bool,
    progress: ShowProgress,
) -> list[Verdict]:
    # The proof needs pytest, which users without katas may lack.
    from debubble.exercises.proof import check as prove

    return prove.check(catalogue, device, progress, pristine, katas, few_attempts)


def with_progress(
    console: Console, accelerator: Accelerator, work: Callable[[ShowProgress], Result]
) -> Result:
    """Runs `work` with a progress bar and returns its result. `work` gets a function that moves the
    bar: number done, total, and a description of the current step."""
    console.print(f"on {accelerator.description}")
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading the katas", total=None)

        def progress(done: int, of: int, doing: str) -> None:
            bar.update(task, completed=done, total=of, description=doing)

        return work(progress)


def _table(katas: list[Kata], verdicts: list[Verdict]) -> Table:
    """Returns a table with a row per kata: whether its stub, its solution and its wrong attempts do
    what they should."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kata", no_wrap=True)
    for heading in ("stub fails", "solution passes", "attempts explained", "files"):
        table.add_column(heading, justify="center")
    for kata in katas:
        own = {v.subject: v for v in verdicts if v.kata == kata.name}
        attempts = [v for subject, v in own.items() if subject.startswith("attempt ")]
        told = sum(v.holds for v in attempts)
        enough = "wrong attempts" not in own and told == len(attempts)
        files = all(own[s].holds for s in ("stub file", "tests", "hint") if s in own)
        table.add_row(
            f"{kata.system}/{kata.name}",
            _mark("stub" in own and own["stub"].holds),
            _mark("solution" in own and own["solution"].holds),
            Text(f"{told} of {len(attempts)}", style="green" if enough else "red"),
            _mark(files),
        )
    return table


def _mark(holds: bool) -> Text:
    return Text("✔", style="green") if holds else Text("✘", style="red")
