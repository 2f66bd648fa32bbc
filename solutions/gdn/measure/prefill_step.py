"""Measures a step of prompts with chunk tables made in four ways, one of them as a graph too, and
the forward itself: `python -m solutions.gdn.bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial

from rich.console import Console

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepInARowCost, in_a_row, repeat

from ..model.config import GDNConfig
from ..step import VARIANTS, GDNStep
from .forward_comparison import compare_forward

IN_GRAPH = "in_graph"
"""The variant that replays the step of `on_device` as one graph."""
MEASURED = (*VARIANTS, IN_GRAPH)
STEPS_IN_A_ROW = {True: 2, False: 8}
"""How many steps are measured in a row, on sim (True) and on a GPU (False)."""
MOST_ROUNDS = 7
"""The most times that each variant's row of steps is measured."""

SMALL_LOAD_MS = {True: 25.0, False: benchmark.PROFILED_LOAD_MS}
"""Milliseconds for which the device is kept busy before a small step, if times are modelled (True)
or not: long enough for the host to queue the step under a profiler."""
SERVING_BYTES = 16 * 2**30
"""Bytes of GPU memory that the workload `serving` needs."""


@dataclass(frozen=True, kw_only=True)
class GDNWorkload(GDNConfig):
    """A model's sizes, and the lengths of the prompts that its step runs."""

    prompt_lens: tuple[int, ...]

    @classmethod
    def small(cls) -> GDNWorkload:
        """Returns a small model and three prompts of a few tokens, since sim computes every
        token."""
        return cls(**asdict(GDNConfig.small()), prompt_lens=(9, 5, 3))

    @classmethod
    def serving(cls) -> GDNWorkload:
        """Returns a model like Qwen3-Next's and eight prompts with 8192 tokens in all."""
        prompt_lens = (3072, 1536, 1024, 512, 512, 512, 512, 512)
        return cls(**asdict(GDNConfig.qwen3_next_like()), prompt_lens=prompt_lens)


def main(arguments: list[str] | None = None) -> None:
    columns = {
        "d2h": lambda cost: str(cost.counts["d2h"]),
        "syncs": lambda cost: str(cost.counts["host_syncs"]),
        "pageable": lambda cost: str(cost.counts["h2d_pageable"]),
        "pinned": lambda cost: str(cost.counts["h2d_pinned"]),
    }
    options = benchmark.parse_options("gdn", __doc__, arguments)
    accelerator = debubble.accelerator()
    presets = choose_presets(accelerator, options.quick)
    own = Benchmark("gdn", presets, measure, len(MEASURED), columns, record_small_steps)
    benchmark.run(own, accelerator, options)
    compare_forward(accelerator, Console(), options.output, options.runs)


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, GDNWorkload]:
    presets = {"small": GDNWorkload.small()}
    if not quick and benchmark.fits(accelerator, SERVING_BYTES):
        presets["serving"] = GDNWorkload.serving()
    return presets


def measure(
    accelerator: Accelerator, workload: GDNWorkload, runs: int, advance: Advance
) -> dict[str, dict[str, StepInARowCost]]:
    variants = steps(workload, accelerator)
    costs, _ = benchmark.measure_step(accelerator, variants, runs, advance)
    num_steps = STEPS_IN_A_ROW[accelerator.modelled]
    rows = {
        variant: (lambda ready=ready: partial(repeat, ready(), num_steps))
        for variant, ready in variants.items()
    }
    loops = in_a_row(accelerator, rows, num_steps, min(runs, MOST_ROUNDS))
    return {
        "prefill": {
            variant: StepInARowCost(**asdict(cost), loop_us=loops[variant])
            for variant, cost in costs.items()
        }
    }


def steps(
    workload: GDNWorkload, accelerator: Accelerator
) -> dict[str, Callable[[], benchmark.Step]]:
    """Returns, by variant, a function that switches to the variant and returns its step, which runs
    all prompts at once. All variants share one model and the same inputs."""
    step = GDNStep(workload, accelerator.device)
    prefill = partial(step.run, step.schedule(workload.prompt_lens))

    def ready(variant: str) -> benchmark.Step:
        step.use(variant)
        return prefill

    @cache
    def in_graph() -> benchmark.Step:
        ready("on_device")()  # compiles, and lets the allocators grow
        accelerator.synchronize()
        graph = accelerator.graph()
        with graph.capture():
            prefill()
        return graph.replay

    return {**{variant: partial(ready, variant) for variant in VARIANTS}, IN_GRAPH: in_graph}


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one small step of each variant and yields its name and timeline."""
    for variant, ready in steps(GDNWorkload.small(), accelerator).items():
        step = ready()
        step()
        yield variant, benchmark.record_step(accelerator, step, SMALL_LOAD_MS[accelerator.modelled])


if __name__ == "__main__":
    main()
