"""The command `debubble`. Each subcommand's body is a module of `debubble.commands`.

A body is imported when its command runs, so that no command waits for the imports of another.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from .contract.packages.pytorch import PyTorchNeeded
from .recording.collector import MOST_CALLS

EXTRAS = dict.fromkeys(("anywidget", "ipywidgets", "IPython", "matplotlib", "pytest"), "lab")
"""The extra of debubble to install for a package that the base install lacks, by the package's
name."""


class _Commands(typer.core.TyperGroup):
    """The group of all commands. It answers Ctrl-C in a command, or a missing package, with one
    sentence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("\nStopped.", err=True)
            raise
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(error.name or "")
            if extra is None:
                raise
            command = f"`debubble {ctx.invoked_subcommand}`"
            needed = f"{command} needs {error.name}, which is not installed here"
            _refuse(f"{needed}: pip install 'debubble[{extra}]'")
        except PyTorchNeeded as error:
            _refuse(str(error.by(f"`debubble {ctx.invoked_subcommand}`")))


def _refuse(sentence: str) -> NoReturn:
    typer.secho(sentence, fg="red", err=True)
    raise typer.Exit(2)


app = typer.Typer(
    cls=_Commands,
    help="Katas and instruments of the workbook about keeping a GPU busy. Without a command: where "
    "you are, and what comes next.",
    pretty_exceptions_enable=False,
)
LEARNING, TEACHING = "Learn", "Teach"
LOOKING, MAKING = "Look at your own code and GPU", "Make katas"


class DeviceName(StrEnum):
    auto = "auto"
    sim = "sim"
    cuda = "cuda"


class HostName(StrEnum):
    modelled = "modelled"
    measured = "measured"


def _kata_names(incomplete: str) -> list[str]:
    from .commands.learning.learner import complete

    return complete(incomplete)


KataName = Annotated[
    str | None,
    typer.Argument(
        metavar="[KATA]",
        help="Its name or the start of it, its file, or a chapter; default: the current kata.",
        show_default=False,
        autocompletion=_kata_names,
    ),
]
Spoil = Annotated[
    bool, typer.Option("--spoil", help="Show it even if you have not solved the kata.")
]
OnDevice = Annotated[DeviceName, typer.Option(help="The accelerator to run on.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"debubble {version('debubble')}")
        except PackageNotFoundError:
            typer.echo("debubble, run from a checkout that is not installed")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from .commands.learning.standing import where

        where()


@app.command("list", rich_help_panel=LEARNING)
def list_(kata: KataName = None) -> None:
    """List all katas by chapter: their state, difficulty and duration."""
    from .commands.learning.standing import list_katas

    list_katas(kata)


@app.command(rich_help_panel=LEARNING)
def next(kata: KataName = None) -> None:
    """Begin the next kata: its task, and your own copy of it."""
    from .commands.learning.begin import next_kata

    next_kata(kata)


@app.command(rich_help_panel=LEARNING)
def run(kata: KataName = None, device: OnDevice = DeviceName.auto) -> None:
    """Run a kata's tests on your code."""
    from .commands.learning.run import run

    run(kata, device.value)


@app.command(rich_help_panel=LEARNING)
def watch(kata: KataName = None, device: OnDevice = DeviceName.auto) -> None:
    """Run a kata's tests whenever you save its file."""
    from .commands.learning.watch import watch

    watch(kata, device.value)


@app.command(rich_help_panel=LEARNING)
def hint(
    kata: KataName = None,
    step: Annotated[int | None, typer.Option(help="Show this step, not the next one.")] = None,
) -> None:
    """Show a hint: one more step each time."""
    from .commands.learning.answers import hint

    hint(kata, step)


@app.command(rich_help_panel=LEARNING)
def bench(kata: KataName = None, device: OnDevice = DeviceName.auto) -> None:
    """Measure a kata: what a call of your code costs, beside ours and the stub's."""
    from .commands.learning.bench import bench

    bench(kata, device.value)


@app.command("open", rich_help_panel=LEARNING)
def open_(
    kata: KataName = None,
    chapter: Annotated[
        bool, typer.Option("--chapter", help="Open its chapter in JupyterLab.")
    ] = False,
) -> None:
    """Open a kata in $EDITOR, or its chapter in JupyterLab."""
    from .commands.learning.begin import open_file

    open_file(kata, chapter)


@app.command(rich_help_panel=LEARNING)
def chapters() -> None:
    """Make your copies of the chapters, or bring them up to date, and print their folder."""
    from .commands.learning.begin import chapters

    chapters()


@app.command(rich_help_panel=LEARNING)
def reset(
    kata: KataName = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
) -> None:
    """Restore a kata's exercise. Shows your edits, asks first, and saves them in a .bak file."""
    from .commands.learning.reset import reset

    reset(kata, yes)


@app.command(rich_help_panel=LEARNING)
def update(kata: KataName = None) -> None:
    """Merge our changes to the exercises into your copies, and keep your edits."""
    from .commands.learning.update import update

    update(kata)


@app.command(rich_help_panel=LEARNING)
def solution(kata: KataName = None, spoil: Spoil = False) -> None:
    """Show our solution of a kata that you have solved."""
    from .commands.learning.answers import solution

    solution(kata, spoil)


@app.command(rich_help_panel=LEARNING)
def diff(kata: KataName = None, spoil: Spoil = False) -> None:
    """Show your code of a kata against ours, once you have solved it."""
    from .commands.learning.answers import diff

    diff(kata, spoil)


@app.command(rich_help_panel=LEARNING)
def progress(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    show_as: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this name on a workshop's board; '' for none."),
    ] = None,
) -> None:
    """Show your progress. No code of yours is run."""
    from .commands.learning.standing import progress, show_on_board

    if show_as is not None:
        show_on_board(show_as)
    else:
        progress(json)


@app.command(rich_help_panel=TEACHING)
def board(
    folder: Annotated[Path, typer.Argument(help="The folder of the learners' folders.")],
    port: Annotated[int, typer.Option(help="The first port to try.", min=1, max=65_000)] = 8890,
    address: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save revealed answers in FILE.")
    ] = None,
) -> None:
    """Show the progress of a group live, from their progress files: no learner's code is run."""
    from .commands.board.board import board

    board(folder, port, address, keep)


@app.command(rich_help_panel=LOOKING)
def doctor() -> None:
    """Describe this machine: accelerator, versions, what is measured and what is modelled."""
    from .commands.doctor import doctor

    doctor()


@app.command(rich_help_panel=LOOKING)
def calibrate(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file of the cost model; default: in assets/calibration/ of a checkout, else "
            "in this folder.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Measure only this part: cost, kernels, or another."),
    ] = None,
) -> None:
    """Measure this GPU: the cost model and kernels that sim is modelled on, then what other
    calibrations there are."""
    from .commands.calibrate import calibrate

    calibrate(output, only)


@app.command(rich_help_panel=LOOKING)
def trace(
    file: Annotated[
        Path, typer.Argument(help="A saved timeline, or a trace of torch.profiler (.json, .gz).")
    ],
    perfetto: Annotated[
        Path | None,
        typer.Option(help="Write Perfetto JSON to this file, and print no timeline."),
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="The width to draw in, in columns.", min=40)
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(help="Of a trace: only this step, counted from 1.", min=1),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of a trace: compare with this one, and exit with status 1 if a step is slower.",
        ),
    ] = None,
    allow: Annotated[
        float, typer.Option(metavar="PERCENT", help="How much slower a step may be.", min=0)
    ] = 5.0,
    most_idle: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", help="Of a trace: exit with status 1 if it is idle for more.", min=0
        ),
    ] = None,
    gpu: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Of a trace: this GPU of several.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a trace: write the findings to FILE as JSON."),
    ] = None,
    measured: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            help="Of a trace: what a step takes without a profiler, for predictions.",
            min=0,
        ),
    ] = None,
) -> None:
    """Print where a GPU waited in a saved timeline or in a trace of torch.profiler."""
    from .commands.torch_trace import Wanted
    from .commands.trace import trace

    trace(file, perfetto, width, Wanted(step, baseline, allow, most_idle, gpu, json, measured))


@app.command(rich_help_panel=LOOKING, context_settings={"allow_interspersed_args": False})
def syncs(
    script: Annotated[str, typer.Argument(help="A Python script, or a module with -m.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT", help="An argument of the script.")
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is a module, as for `python -m`.")
    ] = False,
    as_cuda: Annotated[
        bool, typer.Option("--as-cuda", help='Run code for "cuda" on sim: no GPU is needed.')
    ] = False,
    device: Annotated[
        DeviceName, typer.Option(help="The accelerator to run on.")
    ] = DeviceName.auto,
    host: Annotated[
        HostName | None,
        typer.Option(help="On sim: your own Python costs nothing, or what it takes here."),
    ] = None,
    also: Annotated[
        str,
        typer.Option(
            metavar="KINDS",
            help="Report these as well: any of compile,alloc,host. On sim host measures Python.",
        ),
    ] = "",
    stack: Annotated[
        bool, typer.Option("--stack", help="Show every library line between your line and a wait.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE", help="Treat this installed package as your own code."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit with status 1 for a race, or a wait that is not allowed."
        ),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Exit with status 1 only for findings that are not in FILE, written by --json.",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings to FILE as JSON.")
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings to FILE as SARIF.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print the findings as GitHub Actions annotations.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the timeline to FILE.")
    ] = None,
    most_calls: Annotated[
        int, typer.Option(help="The most PyTorch calls to record.", min=1)
    ] = MOST_CALLS,
    skip: Annotated[
        int,
        typer.Option(
            metavar="PASSES", help="Passes of the script's loop that count as set-up.", min=0
        ),
    ] = 1,
) -> None:
    """Run a script, and list the lines at which the host waits for the GPU."""
    from .commands.syncs import Wanted, syncs
    from .contract.recorded import checked_also

    try:
        kinds = checked_also(filter(None, also.split(",")))
    except ValueError as error:
        raise typer.BadParameter(f"--{error}") from None
    wanted = Wanted(
        device=device.value,
        as_cuda=as_cuda,
        host=host.value if host else None,
        also=kinds,
        is_module=module,
        stack=stack,
        include=include or [],
        check=check,
        baseline=baseline,
        json=json,
        sarif=sarif,
        github=github,
        save=save,
        most_calls=most_calls,
        skip=skip,
    )
    syncs(script, arguments or [], wanted)


@app.command(rich_help_panel=LEARNING)
def lesson(
    system: Annotated[str, typer.Argument(help="A folder of solutions/, such as gdn.")],
    site: Annotated[str | None, typer.Argument(help="One of its sites, if it has several.")] = None,
) -> None:
    """Show what a system changed, before against after, and why it is faster."""
    from .commands.lesson import lesson

    lesson(system, site)


@app.command("new-kata", rich_help_panel=MAKING)
def new_kata(
    name: Annotated[str, typer.Argument(help="A Python identifier that no kata has yet.")],
    system: Annotated[str, typer.Option(help="A folder of katas/, such as gdn.")] = "first_steps",
) -> None:
    """Write all files of a new kata: an example that passes every check, for you to change."""
    from .commands.new_kata import new_kata

    new_kata(name, system)


@app.command(rich_help_panel=MAKING)
def check(
    katas: Annotated[
        list[str] | None, typer.Argument(help="Only these katas; default: all.")
    ] = None,
    device: Annotated[
        DeviceName, typer.Option(help="The accelerator to run on.")
    ] = DeviceName.auto,
    write_stubs: Annotated[
        bool,
        typer.Option(help="Write missing and outdated stubs, and prove only the katas named."),
    ] = False,
    pristine: Annotated[
        bool, typer.Option(help="Count an edited stub as a failure, not as a learner's work.")
    ] = False,
    every_attempt: Annotated[
        bool,
        typer.Option(help="Try every wrong attempt by all tests also without names."),
    ] = False,
    mutants: Annotated[
        bool,
        typer.Option("--mutants", help="Try every small edit of the solutions: does a test fail?"),
    ] = False,
) -> None:
    """Prove the katas: stubs fail as intended, solutions pass, wrong attempts are told why."""
    if mutants:
        from .commands.mutants import check_mutants

        check_mutants(katas or [], device.value)
        return
    from .commands.check import check

    check(katas or [], device.value, write_stubs, pristine, every_attempt)
