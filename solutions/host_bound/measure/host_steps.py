"""Measures a host-bound step, and less and less work for its host: `python -m
solutions.host_bound.bench`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import (
    Advance,
    Benchmark,
    StepInARowCost,
    always,
    in_a_row,
    repeat,
)

from .. import before
from ..batch import StepRequests, decode_batch
from ..fused import FusedServer
from ..metadata import SharedBuilder
from ..step import StepServer
from . import engine_steps, model_steps

STEPS_IN_A_ROW = 24
VARIANTS = ("before", "graph_alone", "fused", "after", "after_fused")
SHARED = ("after", "after_fused")
"""The variants whose metadata is built once for all groups."""
MOST_GROUPS = 4


@dataclass(frozen=True)
class HostStep:
    """The sizes of a server, and of the batch that it decodes."""

    num_layers: int
    width: int
    num_groups: int
    num_requests: int
    dtype: torch.dtype = torch.float32

    @property
    def slots(self) -> int:
        """The slots of the cache: five blocks for each request, and one that no request has."""
        return 16 * (5 * self.num_requests + 1)


@dataclass(frozen=True)
class HostStepCost(StepInARowCost):
    metadata_us: Mapping[int, float]
    """Microseconds of the host to build and upload a step's metadata, by the number of groups: the
    median of many calls."""


class GraphAlone(StepServer):
    """`after` with the metadata of `before`, copied to where the graphs read it: what a graph is
    worth by itself."""

    def renew(self, batch: StepRequests) -> None:
        for group, slots in enumerate(self._builder.slots):
            slots[: batch.num_tokens].copy_(before.build_metadata(batch, group).slots)


class FusedInGraph(FusedServer, StepServer):
    """`after` with one kernel for each layer: what fusion is worth in a graph."""


def main(arguments: list[str] | None = None) -> None:
    columns = {
        "loop": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "launches": lambda cost: str(cost.counts["graph_launches"] or cost.counts["kernels"]),
        "uploads": lambda cost: str(cost.counts["h2d_pinned"] + cost.counts["h2d_pageable"]),
        "metadata": lambda cost: f"{cost.metadata_us[MOST_GROUPS] / 1e3:.2f}",
    }
    parser = benchmark.option_parser("host_bound", __doc__)
    parser.add_argument("--against", type=Path, help="an older checkout, measured in turns")
    options = benchmark.options_of(parser, arguments)
    accelerator = debubble.accelerator()
    presets = {"small": HostStep(40, 16, MOST_GROUPS, 16)}
    if not (options.quick or accelerator.modelled):
        presets["serving"] = HostStep(80, 256, MOST_GROUPS, 256)
    own = Benchmark("host_bound", presets, measure, len(VARIANTS), columns, record_small_steps)
    benchmark.run(own, accelerator, options)
    engine_steps.report(options)
    model_steps.report(options)


def measure(
    accelerator: Accelerator, preset: HostStep, runs: int, advance: Advance
) -> dict[str, dict[str, HostStepCost]]:
    steps = {name: step_of(preset, name) for name in VARIANTS}
    variants: benchmark.Variants = {name: always(step) for name, step in steps.items()}
    costs, _ = benchmark.measure_step(accelerator, variants, runs, advance)
    rows = {name: always(partial(repeat, step, STEPS_IN_A_ROW)) for name, step in steps.items()}
    loops = in_a_row(accelerator, rows, STEPS_IN_A_ROW, min(runs, 6))
    return {
        "decode": {
            name: HostStepCost(
                **asdict(cost),
                loop_us=loops[name],
                metadata_us={
                    groups: metadata_us(accelerator, builder_of(preset, name, groups), runs)
                    for groups in range(1, MOST_GROUPS + 1)
                },
            )
            for name, cost in costs.items()
        }
    }


def step_of(preset: HostStep, variant: str) -> Callable[[], object]:
    """Returns a function that queues one decode step of a server that it makes now."""
    server = server_of(preset, variant)
    batch = decode_batch(preset.num_requests, preset.num_groups)
    hidden = torch.ones(preset.num_requests, preset.width, device=server.scales[0].device)
    return partial(server.step, batch, hidden)


def server_of(preset: HostStep, variant: str) -> before.StepServer:
    sizes = preset.num_layers, preset.width, preset.num_groups, preset.slots
    buckets = [preset.num_requests]
    makes: Mapping[str, Callable[[], before.StepServer]] = {
        "before": partial(before.StepServer, *sizes),
        "graph_alone": partial(GraphAlone, *sizes, buckets),
        "fused": partial(FusedServer, *sizes),
        "after": partial(StepServer, *sizes, buckets),
        "after_fused": partial(FusedInGraph, *sizes, buckets),
    }
    return makes[variant]()


def builder_of(preset: HostStep, variant: str, groups: int) -> Callable[[], object]:
    """Returns a function that builds and uploads the metadata of a step with `groups` groups."""
    batch = decode_batch(preset.num_requests, groups)
    if variant in SHARED:
        return partial(SharedBuilder(preset.num_requests, preset.num_requests, groups).renew, batch)
    return lambda: [before.build_metadata(batch, group) for group in range(groups)]


def metadata_us(accelerator: Accelerator, build: Callable[[], object], runs: int) -> float:
    """Returns the microseconds of a call on the host, or 0 on sim, whose own time it would be."""
    if accelerator.modelled:
        return 0.0
    taken = []
    for _ in range(10 * runs):
        started = time.perf_counter()
        build()
        taken.append((time.perf_counter() - started) * 1e6)
    accelerator.synchronize()
    return statistics.median(taken)


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one small step of each variant and yields its name and timeline."""
    for name in VARIANTS:
        step = step_of(HostStep(40, 16, MOST_GROUPS, 16), name)
        step()
        yield name, benchmark.record_step(accelerator, step, 5.0)
