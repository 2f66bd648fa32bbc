"""`debubble calibrate`: measures this machine's GPU into files, for sim and for other tools."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from .. import accelerator
from ..accelerator import Accelerator
from ..assets import ASSETS, CALIBRATIONS, slug
from ..clock.cost import VARIABLE
from ..clock.kernel_table import FOLDER
from .refusal import refuse
from .registered import registered

GROUP = "debubble.calibrations"
"""Entry points of further measurements, each a callable (accelerator, console) -> None that prints
and stores its result."""
COST, KERNELS = "cost", "kernels"


def calibrate(output: Path | None = None, only: str | None = None) -> None:
    """Measures the cost model into `output`, the kernels of operators, and then all of GROUP; or
    only the part called `only`. Without `output` the files lie beside the shipped ones in a
    checkout, and otherwise in the current folder. If a part of GROUP fails, the other parts still
    run, and the exit status is 1."""
    ours = (COST, KERNELS)
    others = {name: point for name, point in registered(GROUP).items() if name not in ours}
    parts = _parts(only, [*ours, *others])
    if output is not None and COST not in parts:
        refuse(f"--output names the file of the cost model, and only {only!r} is to be measured")
    try:
        gpu = accelerator("cuda")
    except (RuntimeError, ValueError) as error:
        refuse(f"calibration measures a real GPU: {error}")
    console = Console()
    if COST in parts:
        measure_cost(gpu, console, output)
    if KERNELS in parts:
        measure_kernels(gpu, console)
    done = [_measure(others[name], gpu, console) for name in parts if name not in ours]
    if not all(done):
        raise typer.Exit(1)


def _parts(only: str | None, known: list[str]) -> list[str]:
    if only is None:
        return known
    if only not in known:
        refuse(f"calibration {only!r} is unknown: choose one of {', '.join(known)}")
    return [only]


def measure_cost(gpu: Accelerator, console: Console, output: Path | None) -> None:
    """Measures the cost model of `gpu`, prints each constant, and writes them to `output` or to the
    default file."""
    from .calibration.calibration import calibrate as measure
    from .calibration.calibration import cost_model

    if not gpu.has_copy_batch:
        console.print("There is no batch copy here: a loop of single copies is measured instead.")
    title = f"{gpu.description}: microseconds, bytes, or units a microsecond"
    table = Table("constant", "measured", title=title)
    constants: dict[str, float] = {}
    with console.status("measuring") as status:
        for name, value in measure(gpu):
            status.update(f"measured {name}")
            constants[name] = value
            table.add_row(name, f"{value:,.4g}")
    console.print(table)
    folder = CALIBRATIONS if ASSETS.is_dir() else Path.cwd()
    path = output or folder / f"{slug(gpu.description)}.json"
    cost_model(gpu.description, constants).save(path)
    console.print(f"written to {path}", soft_wrap=True)
    if path.parent != CALIBRATIONS:
        console.print(f"sim uses it with {VARIABLE}={path}", soft_wrap=True)


def measure_kernels(gpu: Accelerator, console: Console) -> None:
    """Measures the kernels of operators on `gpu`, in about 100 seconds, and adds them to the GPU's
    table. Writes nothing until all of them are measured."""
    from .calibration.operators.measuring import measure, memory_bandwidth, write

    rows = []
    with console.status("measuring kernels") as status:
        for some in measure(gpu.device):
            rows += some
            status.update(f"measured {len(rows):,} kernels")
    path = (FOLDER if ASSETS.is_dir() else Path.cwd()) / f"{slug(gpu.description)}.json"
    count = write(path, gpu.description, memory_bandwidth(gpu.device), rows)
    console.print(f"{len(rows):,} calls were measured: {path} has {count:,}", soft_wrap=True)


def _measure(point: EntryPoint, gpu: Accelerator, console: Console) -> bool:
    """Runs the measurement of one entry point in GROUP. Returns True on success; otherwise prints
    the error and returns False."""
    try:
        point.load()(gpu, console)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        sentence = f"calibration {point.name!r} ({point.value}) failed: {reason}"
        typer.secho(sentence, fg="red", err=True)
        return False
    return True
