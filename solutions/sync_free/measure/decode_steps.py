"""Measures the eight waits, in one step and in many: `python -m solutions.sync_free.bench`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import debubble
from debubble.accelerator import Accelerator
from solutions.common.read_back import ReadBack
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepInARowCost, in_a_row

from ..model.config import StepConfig
from ..model.model import ConvModel
from ..model.separate_sites import SITES
from ..model.workload import ScheduledStep, Workload
from ..step import DecodeStep, StepOutput

VARIANTS = {"before": (), "separate": SITES, "after": None}
"""The variants, with the `sites` that each gives `DecodeStep`: none fixed, each fixed by itself,
all planned together for one upload."""
STEPS_IN_A_ROW = 24
SMALL_LOAD_MS = 15.0
"""Milliseconds of work queued before a small step: enough for the host to queue the step under a
profiler, and short enough to see the step."""
SERVING_BYTES = 30 * 2**30


def main(arguments: list[str] | None = None) -> None:
    columns = {
        "loop": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "syncs": lambda cost: str(cost.counts["host_syncs"]),
        "pageable": lambda cost: str(cost.counts["h2d_pageable"]),
        "pinned": lambda cost: str(cost.counts["h2d_pinned"]),
    }
    options = benchmark.parse_options("sync_free", __doc__, arguments)
    accelerator = debubble.accelerator()
    presets = choose_presets(accelerator, options.quick)
    own = Benchmark("sync_free", presets, measure, len(VARIANTS), columns, record_small_steps)
    benchmark.run(own, accelerator, options)


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, StepConfig]:
    presets = {"small": StepConfig.small()}
    if not quick and benchmark.fits(accelerator, SERVING_BYTES):
        presets["serving"] = StepConfig.serving()
    return presets


def measure(
    accelerator: Accelerator, config: StepConfig, runs: int, advance: Advance
) -> dict[str, dict[str, StepInARowCost]]:
    model = ConvModel(config, accelerator.device)
    loops = min(runs, 6)
    needed = 4 + runs + loops * STEPS_IN_A_ROW
    scheduled = list(Workload(config).steps(needed))
    running = {name: RunningVariant(model, name, scheduled) for name in VARIANTS}
    variants = {name: (lambda r=r: r.next_step) for name, r in running.items()}
    costs, _ = benchmark.measure_step(accelerator, variants, runs, advance)
    rows = {name: (lambda r=r: r.loop) for name, r in running.items()}
    loop_us = in_a_row(accelerator, rows, STEPS_IN_A_ROW, loops)
    return {
        "decode": {
            name: StepInARowCost(**asdict(cost), loop_us=loop_us[name])
            for name, cost in costs.items()
        }
    }


class RunningVariant:
    """A variant that runs the steps of the workload, one at each call. The constructor runs the
    first step, which is prompts only."""

    def __init__(self, model: ConvModel, variant: str, scheduled: list[ScheduledStep]) -> None:
        self.step = DecodeStep(model, VARIANTS[variant])
        self.scheduled = iter(scheduled)
        self.next_step()

    def next_step(self) -> StepOutput:
        return self.step.run(next(self.scheduled))

    def loop(self) -> None:
        """Runs STEPS_IN_A_ROW steps, and reads the sampled tokens of each while the next one
        runs."""
        last = ReadBack(self.next_step().sampled)
        for _ in range(STEPS_IN_A_ROW - 1):
            sampled = ReadBack(self.next_step().sampled)
            last.read()
            last = sampled
        last.read()


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one small step of each variant and yields its name and timeline."""
    config = StepConfig.small()
    model, scheduled = ConvModel(config, accelerator.device), list(Workload(config).steps(3))
    for name in VARIANTS:
        running = RunningVariant(model, name, scheduled)
        running.next_step()
        yield name, benchmark.record_step(accelerator, running.next_step, SMALL_LOAD_MS)
