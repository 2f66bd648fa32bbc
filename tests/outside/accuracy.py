"""Sim's times beside an H100's, for steps of programs whose authors never saw sim.

Kernels were measured one by one (`assets/calibration/kernels`). The programs in `steps/choosing`
chose how times between them are found. Those in `steps/reporting` had no part in it: only they say
how wrong the result is.

    python -m tests.outside.accuracy                     # sim beside the stored times
    python -m tests.outside.accuracy --write             # ... into docs/accuracy.md
    python -m tests.outside.accuracy --measure FILE      # the times of this machine's GPU

The last one also measures this host's constants and models the same steps with them, once with the
host's Python as measured and once without: a host is compared with itself alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

import debubble
from debubble.accelerator import Accelerator
from debubble.assets import ASSETS
from debubble.clock.cost import VARIABLE
from debubble.commands.calibrate import calibrate
from debubble.contract.host_times import VARIABLE as HOST
from solutions.measure.benchmark import time_in_a_row

HERE = Path(__file__).parent
STEPS = HERE / "steps"
SETS = ("reporting", "choosing")
MEASURED = ASSETS / "accuracy/nvidia-h100-80gb-hbm3.json"
PAGE = HERE.parents[1] / "docs/accuracy.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
WARM_UP = 3
IN_A_ROW = 5
"""The number of steps in a row."""
ROUNDS = 9
HERE_AS = ("modelled", "measured")
"""The two ways of the host's Python on sim."""


class Step(NamedTuple):
    """One step: the microseconds of its device side without waits, the number of kernels, copies
    and memsets, and the microseconds of a call from an idle device and of one of IN_A_ROW."""

    device_us: float
    events: int
    call_us: float | None = None
    row_us: float | None = None


class Row(NamedTuple):
    program: str
    measured: Step
    modelled: Step

    @property
    def error(self) -> float:
        return self.modelled.device_us / self.measured.device_us - 1


def names(which: str) -> list[str]:
    return sorted(path.stem for path in (STEPS / which).glob("*.py"))


def step_of(which: str, program: str, accelerator: Accelerator) -> Step:
    """Runs a program's step on the accelerator and returns its device side, as recorded."""
    path = STEPS / which / f"{program}.py"
    spec = importlib.util.spec_from_file_location(f"step_{program}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    step = module.make(accelerator.device)
    for _ in range(1 if accelerator.modelled else WARM_UP):
        step()
    rounds = 1 if accelerator.modelled else ROUNDS
    with debubble.record(accelerator) as timeline:
        step()
    work = [event for event in timeline.events if event.on_device]
    device_us = round(sum(event.duration for event in work), 1)
    call_us = statistics.median(_call_us(accelerator, step) for _ in range(rounds))
    rows = (time_in_a_row(accelerator, partial(_times, step), IN_A_ROW) for _ in range(rounds))
    return Step(device_us, len(work), round(call_us, 1), round(statistics.median(rows), 1))


def _times(step: Callable[[], object]) -> None:
    for _ in range(IN_A_ROW):
        step()


def _call_us(accelerator: Accelerator, step: Callable[[], object]) -> float:
    """Returns the microseconds until a call of the step returns, which begins with an idle device:
    the host's time, and what it waits for."""
    if accelerator.modelled:
        with debubble.record(accelerator) as timeline:
            step()
        return max(event.end for event in timeline.events if not event.on_device)
    accelerator.synchronize()
    started = time.perf_counter()
    step()
    return (time.perf_counter() - started) * 1e6


def measured_steps() -> dict[str, dict[str, Step]]:
    stored = json.loads(MEASURED.read_text())["steps"]
    return {which: {name: Step(*step) for name, step in stored[which].items()} for which in SETS}


def rows(which: str) -> list[Row]:
    """Runs a set on sim, modelled on the GPU of MEASURED, in a process of its own."""
    modelled = modelled_steps(which, MEASURED.stem)
    return [
        Row(program, measured, Step(*modelled[program]))
        for program, measured in measured_steps()[which].items()
    ]


def modelled_steps(which: str, calibration: str, host: str = "modelled") -> dict[str, list[float]]:
    """Returns sim's steps of a set with this calibration, from a process of its own."""
    chosen = {VARIABLE: calibration, HOST: host, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.outside.accuracy", "--model", which],
        cwd=HERE.parents[1],
        env=os.environ | chosen,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(run.stdout)


def here(path: Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Returns sim's steps with this host's constants, which are measured now, for both ways of the
    host's Python and both sets. `path` is where the constants may lie meanwhile."""
    calibrate(output=path, only="cost")
    try:
        return {
            host: {which: modelled_steps(which, str(path), host) for which in SETS}
            for host in HERE_AS
        }
    finally:
        path.unlink()


def median(found: list[Row]) -> float:
    return statistics.median(abs(row.error) for row in found)


def ordered(found: list[Row]) -> float:
    """Returns the share of pairs of programs whose order by device time is right."""
    pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
    right = [
        (a.measured.device_us < b.measured.device_us)
        == (a.modelled.device_us < b.modelled.device_us)
        for a, b in pairs
    ]
    return sum(right) / len(right)


def tables() -> str:
    text = ""
    for which in SETS:
        found = rows(which)
        text += f"### The {which} set\n"
        text += "| step | H100, µs | sim, µs | error | kernels and copies: H100 | sim |\n"
        text += "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        for row in sorted(found, key=lambda row: abs(row.error)):
            text += (
                f"| {row.program} | {row.measured.device_us:,.0f} | {row.modelled.device_us:,.0f}"
                f" | {row.error:+.1%} | {row.measured.events} | {row.modelled.events} |\n"
            )
        worst = max(abs(row.error) for row in found)
        text += (
            f"\nThe median of the absolute error is {median(found):.1%}, the largest {worst:.0%}. "
            f"Of two steps, sim names the longer one in {ordered(found):.0%} of all pairs.\n\n"
        )
    return text


def on_its_host(stored: dict, which: str, column: str) -> str:
    """Returns a table of one column of Step beside sim's with that host's own constants."""
    at = Step._fields.index(column)
    ways = [stored["here"][host][which] for host in HERE_AS]
    text = "| step | H100, µs | sim, Python measured | error | sim by default | error |\n"
    text += "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    errors: list[list[float]] = [[], []]
    for program, step in stored["steps"][which].items():
        cells = [f"{step[at]:,.0f}"]
        for way, found in zip(reversed(ways), errors, strict=True):
            found.append(way[program][at] / step[at] - 1)
            cells += [f"{way[program][at]:,.0f}", f"{found[-1]:+.1%}"]
        text += f"| {program} | {' | '.join(cells)} |\n"
    usual, default = (statistics.median(map(abs, found)) for found in errors)
    return text + (
        f"\nThe median of the absolute error is {usual:.1%} with the host's Python measured, and "
        f"{default:.1%} by default.\n\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure the accelerator")
    parser.add_argument("--model", choices=SETS, help="print sim's times of a set, as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        gpu = debubble.accelerator()
        steps = {
            which: {name: step_of(which, name, gpu) for name in names(which)} for which in SETS
        }
        stored = {"gpu": gpu.description, "torch": torch.__version__, "steps": steps}
        arguments.measure.parent.mkdir(parents=True, exist_ok=True)
        if not gpu.modelled:
            stored["here"] = here(arguments.measure.with_suffix(".constants.json"))
        arguments.measure.write_text(json.dumps(stored, indent=1) + "\n")
        return
    if arguments.model:
        sim = debubble.accelerator("sim")
        print(
            json.dumps(
                {name: step_of(arguments.model, name, sim) for name in names(arguments.model)}
            )
        )
        return
    text = tables()
    stored = json.loads(MEASURED.read_text())
    if "here" in stored:
        for column, title in (
            ("call_us", "A call"),
            ("row_us", f"One of {IN_A_ROW} steps in a row"),
        ):
            text += f"### {title}, the reporting set, with the constants of that host\n"
            text += on_its_host(stored, "reporting", column)
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
