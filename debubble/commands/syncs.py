"""`debubble syncs SCRIPT`: runs a script, and says at which of its lines the host waited."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

import debubble
from debubble.accelerator import Accelerator
from debubble.detector.report import SyncReport
from debubble.detector.script import NoScript, Script, exit_status
from debubble.timeline.trace_file import write_whole
from debubble.views.syncs import FIGURES, meanings, sentences, table

from .refusal import refuse
from .rich_table import figures_first


def syncs(
    script: Path,
    arguments: list[str],
    device: str,
    check: bool,
    json_file: Path | None,
    save: Path | None,
    most_calls: int,
) -> None:
    """Exits as the script does; with `check` also with status 1 if there is a host sync that is
    not allowed, or nothing was recorded. Exits with status 2 and one sentence, and runs nothing,
    if something that was named can't be read or written."""
    try:
        program = Script.read(script)
    except NoScript as error:
        refuse(str(error))
    json_file, save = _writable(json_file), _writable(save)
    accelerator = _accelerator(device)
    with debubble.find_host_syncs(accelerator, most_calls) as report:
        ended_by = program.run(arguments)
    sys.stdout.flush()
    status = exit_status(ended_by)
    show(report)
    if accelerator.modelled and (_asks_for_cuda(ended_by) or not report.used_the_device):
        typer.secho(ON_SIM, fg="yellow", err=True)
    if json_file is not None:
        write_whole(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) + "\n", json_file)
    if save is not None:
        report.timeline.save(save)
    if status == 0 and check and (report.findings or not report.used_the_device):
        status = 1
    raise typer.Exit(status)


ON_SIM = (
    'This run is on sim, which sees nothing of what a script does on "cuda" or on the CPU: take '
    "the device from debubble.accelerator().device, and the script runs on sim and on a GPU."
)


def show(report: SyncReport) -> None:
    console = Console(highlight=False)
    console.print()
    if report.findings:
        console.print(figures_first(*table(report.findings), console.width, len(FIGURES)))
        console.print()
        for meaning in meanings(report.findings):
            console.print(Text(meaning, style="dim"))
        console.print()
    if report.allowed:
        console.print("Allowed:")
        console.print(figures_first(*table(report.allowed), console.width, len(FIGURES)))
        console.print()
    for sentence in sentences(report.timeline, report.findings, report.allowed):
        console.print(Text(sentence), soft_wrap=True)


def _accelerator(device: str) -> Accelerator:
    try:
        return debubble.accelerator(device)
    except (RuntimeError, ValueError) as error:
        refuse(str(error))


def _writable(file: Path | None) -> Path | None:
    """The absolute path, since a script may change folders; refused before anything runs."""
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
    return isinstance(ended_by, (AssertionError, RuntimeError)) and "CUDA" in str(ended_by)
