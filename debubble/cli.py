"""The command `debubble`. Each subcommand's body is a module of `debubble.commands`.

Those are imported when their command runs: none waits for what only another one needs.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .recording.collector import MOST_CALLS

app = typer.Typer(
    help="Instruments and katas of the workbook about keeping a GPU busy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Device(StrEnum):
    auto = "auto"
    sim = "sim"
    cuda = "cuda"


KataName = Annotated[str, typer.Argument(metavar="KATA", help="Its name, or the path of its file.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"debubble {version('debubble')}")
        except PackageNotFoundError:
            typer.echo("debubble, run from a checkout that is not installed")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which this is."),
    ] = False,
) -> None: ...


@app.command()
def doctor() -> None:
    """Say what this machine is: accelerator, versions, what is measured and what is modelled."""
    from .commands.doctor import doctor

    doctor()


@app.command()
def calibrate(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The cost model's file; default: assets/calibration/ of a checkout, else here.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Measure one part: cost, or another calibration's name."),
    ] = None,
) -> None:
    """Measure this GPU: the cost model that sim is modelled on, then all other calibrations."""
    from .commands.calibrate import calibrate

    calibrate(output, only)


@app.command()
def trace(
    file: Annotated[Path, typer.Argument(help="A timeline that was saved as JSON.")],
    perfetto: Annotated[
        Path | None,
        typer.Option(help="Write Perfetto JSON there, and print nothing of the timeline."),
    ] = None,
    width: Annotated[int | None, typer.Option(help="Columns to draw in.", min=40)] = None,
) -> None:
    """Print a saved timeline as text, or turn it into a trace for ui.perfetto.dev."""
    from .commands.trace import trace

    trace(file, perfetto, width)


@app.command(context_settings={"allow_interspersed_args": False})
def syncs(
    script: Annotated[Path, typer.Argument(help="A Python script.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT", help="What it is given.")
    ] = None,
    device: Annotated[Device, typer.Option(help="The accelerator to run on.")] = Device.auto,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with status 1 if a wait is not allowed.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings there as JSON.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the timeline there.")
    ] = None,
    most_calls: Annotated[
        int, typer.Option(help="Calls of PyTorch to record at most.", min=1)
    ] = MOST_CALLS,
) -> None:
    """Run a script, and list the lines at which the host waits for the GPU."""
    from .commands.syncs import syncs

    syncs(script, arguments or [], device.value, check, json, save, most_calls)


@app.command()
def hint(kata: KataName) -> None:
    """Say what could help with a kata."""
    from .commands.hint import hint

    hint(kata)


@app.command()
def lesson(
    system: Annotated[str, typer.Argument(help="A folder of solutions/, such as gdn.")],
    site: Annotated[
        str | None, typer.Argument(help="One of its places, where it has several.")
    ] = None,
) -> None:
    """Show what a system changed, before against after, and why it is faster."""
    from .commands.lesson import lesson

    lesson(system, site)


@app.command()
def reset(
    kata: KataName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Bring a kata's exercise back. Your edits are shown, asked about, and kept in a .bak file."""
    from .commands.reset import reset

    reset(kata, yes)


@app.command()
def check(
    device: Annotated[Device, typer.Option(help="The accelerator to run on.")] = Device.auto,
    write_stubs: Annotated[
        bool, typer.Option(help="First write stubs that are missing or older than their solution.")
    ] = False,
    pristine: Annotated[
        bool, typer.Option(help="A stub that was edited is a failure, and not a learner's work.")
    ] = False,
) -> None:
    """Prove the katas: stubs fail as intended, solutions pass, wrong attempts are told why."""
    from .commands.check import check

    check(device.value, write_stubs, pristine)


if __name__ == "__main__":
    app()
