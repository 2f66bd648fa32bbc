"""`debubble syncs SCRIPT`: runs a script, and reports the lines at which the host waited."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

import debubble
from debubble.accelerator import Accelerator
from debubble.contract.recorded import VARIABLE as HOST_TIMES
from debubble.contract.recorded import Also
from debubble.contract.source_line import include_packages
from debubble.detector.annotations import github, sarif
from debubble.detector.baseline import Baseline, NoBaseline
from debubble.detector.findings import Finding
from debubble.detector.loops import Loops
from debubble.detector.report import SyncReport
from debubble.detector.script import Module, NoScript, Script, exit_status
from debubble.timeline.trace_file import write_whole
from debubble.views import syncs as views

from .refusal import accelerator_of, refuse
from .rich_table import figures_first


@dataclass(frozen=True)
class Wanted:
    """The options of `debubble syncs`, as it was called."""

    device: str = "auto"
    as_cuda: bool = False
    host: str | None = None
    also: frozenset[Also] = frozenset()
    is_module: bool = False
    stack: bool = False
    include: Sequence[str] = ()
    check: bool = False
    baseline: Path | None = None
    json: Path | None = None
    sarif: Path | None = None
    github: bool = False
    save: Path | None = None
    most_calls: int | None = None
    skip: int = 1


def syncs(program: str, arguments: list[str], wanted: Wanted) -> None:
    """Runs the script, exits with its status, and says where an exception ended it.

    With `check` it exits with status 1 if there is a race or a host sync that is not allowed, with
    `baseline` if there is a race or a new host sync. It exits with status 2 and one sentence if
    nothing ran on the device. If a file can't be read or written, it says so with status 2 and runs
    nothing.
    """
    try:
        runs = Module.named(program) if wanted.is_module else Script.read(Path(program))
        known = Baseline.read(wanted.baseline) if wanted.baseline else None
    except (NoScript, NoBaseline) as error:
        refuse(str(error))
    json_file, sarif_file, save = map(_writable, (wanted.json, wanted.sarif, wanted.save))
    folder = Path.cwd()
    include_packages(wanted.include)
    if wanted.host is not None:
        os.environ[HOST_TIMES] = wanted.host
    accelerator = accelerator_of("sim" if wanted.as_cuda else wanted.device)
    with ExitStack() as stack:
        if wanted.as_cuda:
            _enter_as_cuda(stack)
        with debubble.find_host_syncs(accelerator, wanted.most_calls, wanted.also) as report:
            from debubble.recording.recording import elapsed

            report.loops = Loops(elapsed, wanted.skip)
            ended_by = runs.run(arguments, report.loops)
            report.note(ended_by)
        sys.stdout.flush()
        status = exit_status(ended_by)
    os.chdir(folder)
    show(report, wanted.stack)
    new = report.findings if known is None else known.new(report.findings)
    if known is not None:
        _say_what_is_new(new, report, wanted.stack)
    if wanted.github:
        print(*github(new, report.endings, report.races), sep="\n")
    if json_file is not None:
        _write(report.as_dict(), json_file)
    if sarif_file is not None:
        _write(sarif(new, report.endings, report.races), sarif_file)
    if save is not None:
        report.timeline.save(save)
    advice = _advice(accelerator, wanted, report, ended_by)
    if advice:
        typer.secho(advice, fg="yellow", err=True)
    if status == 0 and not report.used_the_device:
        status = NOTHING_RAN
    if status == 0 and (new or report.races) and (wanted.check or known is not None):
        status = 1
    raise typer.Exit(status)


NOTHING_RAN = 2
ON_SIM = (
    'This run is on sim, which does not see what a script does on "cuda" or on the CPU. '
    '`debubble syncs --as-cuda` runs code for "cuda" on sim; a script that uses '
    "debubble.accelerator().device runs on sim and on a GPU."
)
AS_CUDA = (
    'The script never used the device, although --as-cuda runs code for "cuda" on sim: does it '
    "choose another device, or need an argument such as --device cuda?"
)
ON_CUDA = "The script never used the GPU: does it need an argument such as --device cuda?"


def _advice(
    accelerator: Accelerator, wanted: Wanted, report: SyncReport, ended_by: BaseException | None
) -> str | None:
    """Returns advice if the script ran to its end without the device, or if it failed because there
    is no GPU. Another failure explains itself."""
    on_sim = accelerator.modelled and not wanted.as_cuda
    if report.endings:
        return ON_SIM if on_sim and _asks_for_cuda(ended_by) else None
    if report.used_the_device:
        return None
    if on_sim:
        return ON_SIM
    return AS_CUDA if wanted.as_cuda else ON_CUDA


def show(report: SyncReport, stack: bool = False) -> None:
    console = _console()
    console.print()
    if report.races:
        console.print("Races:", style="bold red")
        for line in views.race_lines(report.timeline):
            console.print(Text(line), soft_wrap=True)
        console.print()
    for heading, part in views.parts(report.findings, report.steps):
        for line in heading:
            console.print(Text(line), soft_wrap=True)
        _print_table(console, part, stack)
    for meaning in views.meanings(report.findings):
        console.print(Text(meaning, style="dim"))
    if report.findings:
        console.print()
    if report.allowed:
        console.print("Allowed:")
        _print_table(console, report.allowed, stack, advice=False)
    said = views.sentences(
        report.timeline, report.findings, report.allowed, report.endings, report.steps
    )
    for sentence in said:
        console.print(Text(sentence), soft_wrap=True)


def _console() -> Console:
    """Returns a console that cuts lines of code to the terminal's width, or to WIDTH_OF_A_LOG
    columns if the output is a file or a log."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_OF_A_LOG
    return console


WIDTH_OF_A_LOG = 160


def _print_table(
    console: Console, findings: Sequence[Finding], stack: bool, advice: bool = True
) -> None:
    headings, rows = views.table(findings, stack, advice)
    figures = figures_first(headings, [row for row, _ in rows], console.width, len(views.FIGURES))
    first, *lines = console.render_lines(figures, pad=False)
    console.print(Segments([*first, Segment.line()]), end="")
    for line, (_, below) in zip(lines, rows, strict=True):
        console.print(Segments([*line, Segment.line()]), end="")
        for part in views.indented(below, console.width):
            console.print(Text(part), soft_wrap=True)
    console.print()


def _say_what_is_new(new: Sequence[Finding], report: SyncReport, stack: bool) -> None:
    console = _console()
    found = len(report.findings)
    known = f"{found - len(new)} of {found} are in the baseline"
    if not new:
        console.print(f"Nothing new{' in what ran' if report.endings else ''}: {known}.")
        return
    console.print()
    console.print(f"New ({known}):")
    _print_table(console, new, stack)


def _write(value: object, file: Path) -> None:
    write_whole(json.dumps(value, indent=2, ensure_ascii=False) + "\n", file)


def _enter_as_cuda(stack: ExitStack) -> None:
    try:
        stack.enter_context(debubble.as_cuda())
    except RuntimeError as error:
        refuse(str(error))


def _writable(file: Path | None) -> Path | None:
    """Returns the absolute path, since a script may change folders; refuses an unwritable one
    before anything runs."""
    if file is None:
        return None
    file = Path(os.path.abspath(file))
    if file.is_dir():
        refuse(f"{file} can't be written: it is a directory.")
    if not file.parent.is_dir():
        refuse(f"{file} can't be written: there is no directory {file.parent}.")
    if not os.access(file.parent, os.W_OK):
        refuse(f"{file} can't be written: {file.parent} is read-only.")
    return file


def _asks_for_cuda(ended_by: BaseException | None) -> bool:
    """Returns True if the script failed because there is no GPU. A PyTorch with CUDA says that it
    found no NVIDIA driver, and one without says that it lacks CUDA."""
    without_gpu = isinstance(ended_by, (AssertionError, RuntimeError))
    return without_gpu and any(name in str(ended_by) for name in ("CUDA", "NVIDIA driver"))
