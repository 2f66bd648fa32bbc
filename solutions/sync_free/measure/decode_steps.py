"""Measures the eight waits, in one step and in many: `python -m solutions.sync_free.bench`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepInARowCost, in_a_row

from ..model.config import StepConfig
from ..model.model import ConvModel
from ..model.separate_sites import SITES
from ..model.workload import Workload
from .running import RunningVariant, choose_presets

VARIANTS = {"before": (), "separate": SITES, "after": None}
"""The variants, with the `sites` that each gives `DecodeStep`: none fixed, each fixed by itself,
all planned together for one upload."""
STEPS_IN_A_ROW = 24
SMALL_LOAD_MS = 15.0
"""Milliseconds of work queued before a small step: enough for the host to queue the step under a
profiler, and short enough to see the step."""


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


def measure(
    accelerator: Accelerator, config: StepConfig, runs: int, advance: Advance
) -> dict[str, dict[str, StepInARowCost]]:
    model = ConvModel(config, accelerator.device)
    loops = min(runs, 6)
    needed = 4 + runs + loops * STEPS_IN_A_ROW
    scheduled = list(Workload(config).steps(needed))
    running = {name: RunningVariant(model, sites, scheduled) for name, sites in VARIANTS.items()}
    variants = {name: (lambda r=r: r.next_step) for name, r in running.items()}
    costs, _ = benchmark.measure_step(accelerator, variants, runs, advance)
    rows = {name: partial(r.row, STEPS_IN_A_ROW) for name, r in running.items()}
    loop_us = in_a_row(accelerator, rows, STEPS_IN_A_ROW, loops)
    return {
        "decode": {
            name: StepInARowCost(**asdict(cost), loop_us=loop_us[name])
            for name, cost in costs.items()
        }
    }


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one small step of each variant and yields its name and timeline."""
    config = StepConfig.small()
    model, scheduled = ConvModel(config, accelerator.device), list(Workload(config).steps(3))
    for name, sites in VARIANTS.items():
        running = RunningVariant(model, sites, scheduled)
        running.next_step()
        yield name, benchmark.record_step(accelerator, running.next_step, SMALL_LOAD_MS)
