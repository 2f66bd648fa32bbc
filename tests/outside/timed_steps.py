"""Takes the times of steps: the programs in `steps/`, and other people's programs whole."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

import debubble
from debubble.accelerator import Accelerator
from debubble.clock.configuration import ALONG_A_DIMENSION, PRODUCTS
from debubble.timeline import Event, Timeline
from solutions.measure.benchmark import time_in_a_row

from .programs import Program, prepare, programs, run
from .traces.pairs import PAIRS

STEPS = Path(__file__).parent / "steps"
LESSONS = "pinned_h2d", "sync_free", "gdn", "flex_graph", "offload", "engine"
"""The pairs that the chapters show."""
WARM_UP = 3
IN_A_ROW = 5
"""The number of steps in a row."""
ROUNDS = 9


class Step(NamedTuple):
    """One step: the microseconds of its device side without waits, the number of kernels, copies
    and memsets, the microseconds of a call from an idle device and of one of IN_A_ROW, and the
    number of kernels by the kind of their operator, and of copies. Of steps in a row the numbers
    are those of the row."""

    device_us: float
    events: int
    call_us: float | None = None
    row_us: float | None = None
    by_kind: dict[str, int] | None = None


def step_sets(only_device: bool = False) -> dict[str, Callable[[Accelerator], dict[str, Step]]]:
    """Returns what times each set, by its name. With `only_device` the written programs have no
    calls and rows, which take most of the time."""
    return {
        "reporting": partial(written_steps, "reporting", only_device),
        "choosing": partial(written_steps, "choosing", only_device),
        "lessons": lesson_steps,
        "programs": program_steps,
    }


def written_steps(which: str, only_device: bool, accelerator: Accelerator) -> dict[str, Step]:
    """Times the programs of a folder in `steps/`."""
    paths = sorted((STEPS / which).glob("*.py"))
    return {path.stem: step_of(path, accelerator, only_device) for path in paths}


def lesson_steps(accelerator: Accelerator) -> dict[str, Step]:
    """Times the steps that the chapters show, before and after, at the sizes that sim runs."""
    steps = {}
    for name in LESSONS:
        pair = PAIRS[name](accelerator, False)
        for side, row in (("before", pair.before), ("after", pair.after)):
            steps[f"{name}, {side}"] = timed(row, accelerator, pair.steps)
    return steps


def step_of(path: Path, accelerator: Accelerator, only_device: bool = False) -> Step:
    """Times the step of a program in the file `path`; with `only_device` its device side alone."""
    spec = importlib.util.spec_from_file_location(f"step_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    step = module.make(accelerator.device)
    if only_device:
        step()
        with debubble.record(accelerator) as timeline:
            step()
        return side_of(timeline)
    once = timed(step, accelerator)
    rounds = 1 if accelerator.modelled else ROUNDS
    calls = [_call_us(accelerator, step) for _ in range(rounds)]
    in_a_row = timed(partial(_times, step), accelerator, IN_A_ROW)
    return once._replace(call_us=round(statistics.median(calls), 1), row_us=in_a_row.row_us)


def timed(row: Callable[[], object], accelerator: Accelerator, steps: int = 1) -> Step:
    """Runs a row of `steps` steps, recorded and in turns, and returns one step of it."""
    for _ in range(1 if accelerator.modelled else WARM_UP):
        row()
    with debubble.record(accelerator) as timeline:
        row()
    rounds = range(1 if accelerator.modelled else ROUNDS)
    times = [time_in_a_row(accelerator, row, steps) for _ in rounds]
    side = side_of(timeline)
    return side._replace(
        device_us=round(side.device_us / steps, 1), row_us=round(statistics.median(times), 1)
    )


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


def side_of(timeline: Timeline) -> Step:
    """Returns the device side of a recording."""
    work = [event for event in timeline.events if event.on_device]
    device_us = round(sum(event.duration for event in work), 1)
    kinds = Counter(kind_of(timeline, event) for event in work)
    return Step(device_us, len(work), by_kind=dict(sorted(kinds.items())))


def kind_of(timeline: Timeline, event: Event) -> str:
    """Returns the kind of the operator that launched a kernel or a copy."""
    if event.kind == "copy" or event.launched_by is None:
        return "copy"
    operator = timeline.events[event.launched_by].name.split(".")[0]
    for kind in ("convolution", "attention"):
        if kind in operator:
            return kind
    if operator in PRODUCTS:
        return "product"
    return "reduction" if operator in ALONG_A_DIMENSION else "elementwise and others"


def timed_programs() -> list[Program]:
    """Returns the manifest's programs that can run here, but for those of several processes."""
    return [
        program
        for program in programs()
        if not (program.torchrun or program.missing) and (program.is_fetched or program.is_package)
    ]


def program_steps(accelerator: Accelerator) -> dict[str, Step]:
    """Runs the public programs, and says on stderr which failed and why."""
    steps = {}
    for program in timed_programs():
        try:
            steps[program.name] = program_step(program, accelerator)
        except RuntimeError as error:
            print(error, file=sys.stderr)
    return steps


def program_step(program: Program, accelerator: Accelerator) -> Step:
    """Runs a program whole, recorded, and returns its device side. Raises RuntimeError with what
    it printed last if it fails."""
    prepare(program)
    with TemporaryDirectory() as folder:
        report, saved = Path(folder) / "report.json", Path(folder) / "timeline.json"
        ran = run(program, report, saved, as_cuda=accelerator.modelled)
        if not saved.exists():
            raise RuntimeError(f"{program.name}: {ran.printed[-300:]}")
        return side_of(Timeline.load(saved))
