"""Measures where the time goes that `sync_free` saves as the last fix of a decode step: `python -m
solutions.engine.measure.last_fix`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import torch
from rich.console import Console

from debubble.accelerator import Accelerator, current
from solutions.measure import benchmark
from solutions.measure.benchmark import StepInARowCost, in_turns, time_in_a_row
from solutions.measure.variant_table import VariantTable

from .. import seams
from ..engine import Engine
from ..model.model import Model
from ..optimizations import Optimizations
from ..run.sides import Awaited, StepSide
from .presets import ServingPreset
from .step_costs import MOST_ROUNDS, MOST_RUNS, STEPS_IN_A_ROW
from .steps import Decodes
from .variants import warm_up

ON = ("pinned_h2d", "flex_full_graph", "sync_free")
"""The fixes of each variant: with the first two a decode step is one graph."""
BEFORE, AFTER = seams.SYNC_FREE.before, seams.SYNC_FREE.after
SIDES: dict[str, StepSide] = {
    "neither": BEFORE,
    "packed inputs": replace(BEFORE, inputs_class=AFTER.inputs_class),
    "late read": replace(BEFORE, read_back=AFTER.read_back, steps_ahead=AFTER.steps_ahead),
    "sync_free": AFTER,
}
"""The variants: the two parts of `sync_free` that a decode step runs, each alone; and all of it."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class LastFixCost(StepInARowCost):
    """The cost of a decode step, and the host's share of its time in a row. The shares are None on
    sim, where they would be sim's own time."""

    upload_us: float | None = None
    """Microseconds in which the host uploads the step's inputs, with waits for the uploads."""
    read_us: float | None = None
    """Microseconds in which the host reads tokens back, with waits for them."""
    other_us: float | None = None
    """The rest of `loop_us`."""


COLUMNS = VariantTable[LastFixCost](
    "µs of a decode step in a row",
    lambda cost: 1 / cost.loop_us,
    {
        "loop": lambda cost: f"{cost.loop_us:.0f}",
        "upload": lambda cost: f"{cost.upload_us or 0:.0f}",
        "read": lambda cost: f"{cost.read_us or 0:.0f}",
        "other": lambda cost: f"{cost.other_us or 0:.0f}",
        "GPU": lambda cost: f"{cost.device_us * (1 - cost.idle_share):.0f}",
        "waits": lambda cost: str(cost.counts["host_syncs"]),
    },
)


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("engine", __doc__)
    parser.prog = "python -m solutions.engine.measure.last_fix"
    options = benchmark.options_of(parser, arguments)
    accelerator = current()
    preset = ServingPreset.hybrid_on_sim() if accelerator.modelled else ServingPreset.hybrid()
    runs = 1 if accelerator.modelled else options.runs
    costs = {"hybrid": {"decode": measure(accelerator, preset, runs)}}
    Console().print(COLUMNS.of(costs, accelerator))
    if options.output:
        contents = {"presets": benchmark.by_preset({"hybrid": preset}, costs)}
        path = options.output / "engine_last_fix.json"
        benchmark.write_record(path, "engine_last_fix", accelerator, contents)


class TimedDecodes:
    """Decode steps of an engine that notes how long its uploads and its reads take on the host."""

    def __init__(self, engine: Engine, preset: ServingPreset) -> None:
        self.decodes = Decodes(engine, preset)
        self.upload_us = self.read_us = 0.0
        inputs, sampler = engine.runner.inputs, engine.runner.sampler
        setattr(inputs, "upload", self._timed("upload_us", inputs.upload))  # noqa: B010
        read_back = partial(self._read_back, sampler.side.read_back)
        sampler.side = replace(sampler.side, read_back=read_back)

    def row(self, num_steps: int) -> None:
        self.upload_us = self.read_us = 0.0
        self.decodes.row(num_steps)

    def _read_back(
        self, read_back: Callable[[torch.Tensor], Awaited], tensor: torch.Tensor
    ) -> Awaited:
        awaited = self._timed("read_us", read_back)(tensor)
        return TimedRead(self._timed("read_us", awaited.read))

    def _timed(self, noted: str, call: Callable[Given, Result]) -> Callable[Given, Result]:
        """Returns a function that does as `call` does, and adds its time to the attribute
        `noted`."""

        def timed(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            started = time.perf_counter()
            result = call(*args, **kwargs)
            setattr(self, noted, getattr(self, noted) + (time.perf_counter() - started) * 1e6)
            return result

        return timed


@dataclass(frozen=True)
class TimedRead:
    """Tokens in flight to the host, whose `read` is timed."""

    read: Callable[[], torch.Tensor]


@dataclass(frozen=True, order=True)
class Row:
    """The microseconds of one step in a row: of all, and of the host's uploads and reads."""

    loop_us: float
    upload_us: float
    read_us: float


def measure(accelerator: Accelerator, preset: ServingPreset, runs: int) -> dict[str, LastFixCost]:
    """Returns the cost of a decode step of each variant. The variants take turns."""
    model = Model(preset.config, accelerator.device)
    steps = {name: decodes_of(accelerator, preset, model, side) for name, side in SIDES.items()}
    ready = {name: of_variant.decodes.ready for name, of_variant in steps.items()}
    costs, _ = benchmark.measure_step(accelerator, ready, min(runs, MOST_RUNS), lambda: None)
    rows: dict[str, list[Row]] = {name: [] for name in steps}
    for name in in_turns(steps, min(runs, MOST_ROUNDS)):
        rows[name].append(time_row(accelerator, steps[name]))
    for of_variant in steps.values():
        of_variant.decodes.stop()
    return {name: cost_of(accelerator, costs[name], rows[name]) for name in steps}


def decodes_of(
    accelerator: Accelerator, preset: ServingPreset, model: Model, side: StepSide
) -> TimedDecodes:
    """Returns decode steps of a new engine that runs `side` as its sync_free."""
    with patch.object(seams, "SYNC_FREE", replace(seams.SYNC_FREE, after=side)):
        engine = Engine(preset.config, Optimizations.only(ON), model=model)
    if not accelerator.modelled:
        warm_up(engine)
    return TimedDecodes(engine, preset)


def time_row(accelerator: Accelerator, steps: TimedDecodes) -> Row:
    num_steps = STEPS_IN_A_ROW[accelerator.modelled]["decode"]
    steps.decodes.ready(num_steps)
    loop_us = time_in_a_row(accelerator, partial(steps.row, num_steps), num_steps)
    return Row(loop_us, steps.upload_us / num_steps, steps.read_us / num_steps)


def cost_of(accelerator: Accelerator, cost: benchmark.StepCost, rows: list[Row]) -> LastFixCost:
    """Returns the cost with the row at the lower quartile, as `step_costs.lower_quartile` says."""
    row = sorted(rows)[(len(rows) - 1) // 4]
    if accelerator.modelled:
        return LastFixCost(**asdict(cost), loop_us=row.loop_us)
    other_us = row.loop_us - row.upload_us - row.read_us
    return LastFixCost(**asdict(cost), **asdict(row), other_us=other_us)


if __name__ == "__main__":
    main()
