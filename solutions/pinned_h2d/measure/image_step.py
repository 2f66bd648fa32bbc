"""Measures the step before and after the change: `python -m solutions.pinned_h2d.bench`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepCost

from ..model.config import ImageStepConfig
from ..step import ImageSteps, Variant

KINDS = ("prefill", "decode")
VARIANTS: tuple[Variant, ...] = ("before", "after")
GEMMA_BYTES = 40 * 2**30
ATTENTION = "prefix_attention_kernel"


@dataclass(frozen=True)
class PrefixStepCost(StepCost):
    attention_us: float
    """Microseconds of one layer's attention kernel: the median over the layers of a recorded
    step."""


def main(arguments: list[str] | None = None) -> None:
    columns = {
        "kernel µs": lambda cost: f"{cost.attention_us:.1f}",
        "uploads": lambda cost: benchmark.uploads(cost.counts),
    }
    options = benchmark.parse_options("pinned_h2d", __doc__, arguments)
    accelerator = debubble.accelerator()
    presets = choose_presets(accelerator, options.quick)
    measured_steps = len(KINDS) * len(VARIANTS)
    own = Benchmark("pinned_h2d", presets, measure, measured_steps, columns, record_small_steps)
    benchmark.run(own, accelerator, options)


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, ImageStepConfig]:
    presets = {"small": ImageStepConfig.small()}
    if not quick and benchmark.fits(accelerator, GEMMA_BYTES):
        presets["gemma_like"] = ImageStepConfig.gemma_like()
    return presets


def measure(
    accelerator: Accelerator, config: ImageStepConfig, runs: int, advance: Advance
) -> dict[str, dict[str, PrefixStepCost]]:
    engine = ImageSteps(config, accelerator.device)
    return {kind: measure_kind(accelerator, engine, kind, runs, advance) for kind in KINDS}


def measure_kind(
    accelerator: Accelerator, engine: ImageSteps, kind: str, runs: int, advance: Advance
) -> dict[str, PrefixStepCost]:
    variants: benchmark.Variants = {name: partial(ready, engine, kind, name) for name in VARIANTS}
    costs, recorded = benchmark.measure_step(accelerator, variants, runs, advance)
    return {
        name: PrefixStepCost(**asdict(cost), attention_us=attention_us(recorded[name]))
        for name, cost in costs.items()
    }


def ready(engine: ImageSteps, kind: str, variant: Variant) -> benchmark.Step:
    engine.use(variant)
    return getattr(engine, kind)


def attention_us(timeline: debubble.Timeline) -> float:
    work = benchmark.work_of(timeline)
    return statistics.median(event.duration for event in work if ATTENTION in event.name)


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one small prefill step of each variant and yields its name and timeline."""
    engine = ImageSteps(ImageStepConfig.small(), accelerator.device)
    for variant in VARIANTS:
        step = ready(engine, "prefill", variant)
        step()
        yield variant, benchmark.record_step(accelerator, step)
