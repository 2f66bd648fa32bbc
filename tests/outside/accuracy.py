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
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

import debubble
from debubble.assets import ASSETS
from debubble.clock.cost import VARIABLE
from debubble.commands.calibrate import calibrate
from debubble.contract.recorded import VARIABLE as HOST

from .timed_steps import IN_A_ROW, Step, step_sets

HERE = Path(__file__).parent
TITLES = {
    "reporting": "The reporting set",
    "choosing": "The choosing set",
    "lessons": "Steps of the chapters",
    "programs": "Public programs, whole",
}
MEASURED = ASSETS / "accuracy/nvidia-h100-80gb-hbm3.json"
PAGE = HERE.parents[1] / "docs/accuracy.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
LIBRARIES_CHOICE = {"convolution": 4}
"""The number of kernels by which a library may differ from itself, by kind."""
ON_ITS_HOST = ("reporting", "lessons")
"""The sets of which calls and rows are compared too, with the constants of the host that ran
them."""
HERE_AS = ("modelled", "measured")
"""The two ways of the host's Python on sim."""


class Row(NamedTuple):
    program: str
    measured: Step
    modelled: Step

    @property
    def error(self) -> float:
        return self.modelled.device_us / self.measured.device_us - 1

    @property
    def other_kinds(self) -> list[str]:
        """The kinds of operators of which sim has another number of kernels."""
        ours, theirs = self.modelled.by_kind or {}, self.measured.by_kind or {}
        return [
            f"{kind} {ours.get(kind, 0)} for {theirs.get(kind, 0)}"
            for kind in sorted({*ours, *theirs})
            if abs(ours.get(kind, 0) - theirs.get(kind, 0)) > LIBRARIES_CHOICE.get(kind, 0)
        ]


def measured_steps() -> dict[str, dict[str, Step]]:
    stored = json.loads(MEASURED.read_text())["steps"]
    return {
        which: {name: Step(*step) for name, step in steps.items()}
        for which, steps in stored.items()
    }


def rows(which: str) -> list[Row]:
    """Runs a set on sim, modelled on the GPU of MEASURED, in a process of its own."""
    modelled = modelled_steps(which, MEASURED.stem)
    return [
        Row(program, measured, Step(*modelled[program]))
        for program, measured in measured_steps()[which].items()
        if program in modelled
    ]


def modelled_steps(which: str, calibration: str, host: str | None = None) -> dict[str, list[float]]:
    """Returns sim's steps of a set with this calibration, from a process of its own: with `host`,
    the way of the host's Python, calls and rows too."""
    chosen = {VARIABLE: calibration, HOST: host or "modelled", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.outside.accuracy", "--model", which]
    run = subprocess.run(
        [*command, *(() if host else ("--only-device",))],
        cwd=HERE.parents[1],
        env=os.environ | chosen,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=1200,
    )
    return json.loads(run.stdout)


def here(path: Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Returns sim's steps with this host's constants, which are measured now, for both ways of the
    host's Python. `path` is where the constants may lie meanwhile."""
    calibrate(output=path, only="cost")
    try:
        return {
            host: {which: modelled_steps(which, str(path), host) for which in ON_ITS_HOST}
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


def below_it(errors: Iterable[float]) -> float:
    """Returns the error that nine of ten errors stay below."""
    return statistics.quantiles(errors, n=10, method="inclusive")[-1]


def tables() -> str:
    return "".join(f"### {TITLES[which]}\n{table(rows(which))}" for which in measured_steps())


def table(found: list[Row]) -> str:
    text = "| step | H100, µs | sim, µs | error | kernels and copies: H100 | sim |\n"
    text += "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    for row in sorted(found, key=lambda row: abs(row.error)):
        text += (
            f"| {row.program} | {row.measured.device_us:,.0f} | {row.modelled.device_us:,.0f}"
            f" | {row.error:+.1%} | {row.measured.events} | {row.modelled.events} |\n"
        )
    errors = [abs(row.error) for row in found]
    text += (
        f"\nThe median of the absolute error is {median(found):.1%}, nine of ten are below "
        f"{below_it(errors):.0%}, and the largest is {max(errors):.0%}. "
        f"Of two steps, sim names the longer one in {ordered(found):.0%} of all pairs.\n\n"
    )
    counted = [row for row in found if row.measured.by_kind]
    return text + kinds_table(counted) if counted else text


def kinds_table(counted: list[Row]) -> str:
    """Returns which programs have another number of kernels on sim, by kind of operator."""
    other = {row.program: row.other_kinds for row in counted if row.other_kinds}
    text = (
        f"{len(counted) - len(other)} of {len(counted)} programs have as many kernels of each kind "
        "on sim as on the H100; for a convolution up to 4 more or fewer count as equal.\n\n"
    )
    if not other:
        return text
    text += "| step | kernels on sim, for those on the H100 |\n| --- | --- |\n"
    text += "".join(f"| {name} | {', '.join(kinds)} |\n" for name, kinds in other.items())
    return text + "\n"


def host_tables(stored: dict) -> str:
    """Returns the tables of calls and rows, if the host's constants were measured with them."""
    shown = {
        ("reporting", "call_us"): "A call, the reporting set",
        ("reporting", "row_us"): f"One of {IN_A_ROW} steps in a row, the reporting set",
        ("lessons", "row_us"): "One step in a row, steps of the chapters",
    }
    return "".join(
        f"### {title}, with the constants of that host\n{on_its_host(stored, *place)}"
        for place, title in shown.items()
        if "here" in stored
    )


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
    usual, default = (
        f"{statistics.median(found):.1%}, and nine of ten are below {below_it(found):.0%}"
        for found in ([*map(abs, each)] for each in errors)
    )
    return text + (
        f"\nThe median of the absolute error is {usual}, with the host's Python measured. By "
        f"default it is {default}.\n\n"
    )


def measure(path: Path) -> None:
    """Writes the times of all sets on this machine's accelerator to `path`."""
    gpu = debubble.accelerator()
    steps = {which: take(gpu) for which, take in step_sets().items()}
    stored = {"gpu": gpu.description, "torch": torch.__version__, "steps": steps}
    path.parent.mkdir(parents=True, exist_ok=True)
    if not gpu.modelled:
        stored["here"] = here(path.with_suffix(".constants.json"))
    path.write_text(json.dumps(stored, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure the accelerator")
    parser.add_argument("--model", choices=TITLES, help="print sim's times of a set, as JSON")
    parser.add_argument("--only-device", action="store_true", help="... without calls and rows")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    if arguments.model:
        steps = step_sets(arguments.only_device)[arguments.model]
        print(json.dumps(steps(debubble.accelerator("sim"))))
        return
    text = tables() + host_tables(json.loads(MEASURED.read_text()))
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
