"""Sim's device times beside an H100's, for steps of programs whose authors never saw sim.

Kernels were measured one by one (`assets/calibration/kernels`). The programs in `steps/choosing`
chose how times between them are found. Those in `steps/reporting` had no part in it: only they say
how wrong the result is.

    python -m tests.outside.accuracy                     # sim beside the stored times
    python -m tests.outside.accuracy --write             # ... into docs/accuracy.md
    python -m tests.outside.accuracy --measure FILE      # the times of this machine's GPU
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import torch

import debubble
from debubble.accelerator import Accelerator
from debubble.assets import ASSETS
from debubble.clock.cost import VARIABLE

HERE = Path(__file__).parent
STEPS = HERE / "steps"
SETS = ("reporting", "choosing")
MEASURED = ASSETS / "accuracy/nvidia-h100-80gb-hbm3.json"
PAGE = HERE.parents[1] / "docs/accuracy.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
WARM_UP = 3


class Step(NamedTuple):
    """The device's side of one step, without waits: microseconds, and the number of kernels, copies
    and memsets."""

    device_us: float
    events: int


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
    with debubble.record(accelerator) as timeline:
        step()
    work = [event for event in timeline.events if event.on_device]
    return Step(round(sum(event.duration for event in work), 1), len(work))


def measured_steps() -> dict[str, dict[str, Step]]:
    stored = json.loads(MEASURED.read_text())["steps"]
    return {which: {name: Step(*step) for name, step in stored[which].items()} for which in SETS}


def rows(which: str) -> list[Row]:
    """Runs a set on sim, modelled on the GPU of MEASURED, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.outside.accuracy", "--model", which],
        cwd=HERE.parents[1],
        env=os.environ | {VARIABLE: MEASURED.stem, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    modelled = json.loads(run.stdout)
    return [
        Row(program, measured, Step(*modelled[program]))
        for program, measured in measured_steps()[which].items()
    ]


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
        about = {"gpu": gpu.description, "torch": torch.__version__}
        arguments.measure.parent.mkdir(parents=True, exist_ok=True)
        arguments.measure.write_text(json.dumps({**about, "steps": steps}, indent=1) + "\n")
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
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
