"""`debubble calibrate`: measures this machine's GPU into a file that sim takes its times from."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from .. import accelerator
from ..assets import slug
from ..sim.cost import CALIBRATIONS
from .refusal import refuse


def calibrate(output: Path | None = None) -> None:
    """Prints every constant and writes them to `output`, or beside the shipped calibrations."""
    try:
        gpu = accelerator("cuda")
    except RuntimeError as error:
        refuse(f"calibration measures a real GPU: {error}")
    from ..cuda.calibration import calibrate as measure
    from ..cuda.calibration import cost_model

    console = Console()
    title = f"{gpu.description}: microseconds, or units a microsecond"
    table = Table("constant", "measured", title=title)
    constants: dict[str, float] = {}
    with console.status("measuring") as status:
        for name, value in measure(gpu):
            status.update(f"measured {name}")
            constants[name] = value
            table.add_row(name, f"{value:,.4g}")
    console.print(table)
    path = output or CALIBRATIONS / f"{slug(gpu.description)}.json"
    cost_model(gpu.description, constants).save(path)
    console.print(f"written to {path}")
