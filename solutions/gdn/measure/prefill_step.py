"""Measures a step of prompts with chunk tables made in four ways, and the forward itself: `python
-m solutions.gdn.bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

from rich.console import Console

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepCost

from ..model.config import GDNConfig
from ..step import VARIANTS, GDNStep
from .forward_comparison import compare_forward

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
    own = Benchmark("gdn", presets, measure, len(VARIANTS), columns, record_small_steps)
    benchmark.run(own, accelerator, options)
    compare_forward(accelerator, Console(), options.output, options.runs)


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, GDNWorkload]:
    presets = {"small": GDNWorkload.small()}
    if not quick and benchmark.fits(accelerator, SERVING_BYTES):
        presets["serving"] = GDNWorkload.serving()
    return presets


def measure(
    accelerator: Accelerator, workload: GDNWorkload, runs: int, advance: Advance
) -> dict[str, dict[str, StepCost]]:
    variants = steps(workload, accelerator)
    return {"prefill": benchmark.measure_step(accelerator, variants, runs, advance)[0]}


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

    return {variant: partial(ready, variant) for variant in VARIANTS}


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one small step of each variant and yields its name and timeline."""
    for variant, ready in steps(GDNWorkload.small(), accelerator).items():
        step = ready()
        step()
        yield variant, benchmark.record_step(accelerator, step, SMALL_LOAD_MS[accelerator.modelled])


if __name__ == "__main__":
    main()
