"""What the step costs, as it was and as it is: `python -m solutions.pinned_h2d.bench`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

import debubble
from debubble.accelerator import Accelerator
from solutions import benchmark
from solutions.benchmark import StepCost

from .config import StepConfig
from .step import Engine

GEMMA_BYTES = 40 * 2**30
ATTENTION = "prefix_attention_kernel"


@dataclass(frozen=True)
class PrefixStepCost(StepCost):
    attention_us: float
    """Of one layer's attention kernel."""


def main(arguments: list[str] | None = None) -> None:
    options = benchmark.options_of(__doc__, arguments)
    accelerator = debubble.accelerator()
    console = Console()
    presets = choose_presets(accelerator, options.quick)
    runs = benchmark.runs_of(accelerator, options.quick)
    results = {}
    with benchmark.progress_of(console) as progress:
        for name, config in presets.items():
            task = progress.add_task(name, total=4 * (runs + 1))
            results[name] = measure(accelerator, config, runs, lambda t=task: progress.advance(t))
    for name, steps in results.items():
        console.print(as_table(name, steps, accelerator))
    if options.output:
        record = {name: as_record(presets[name], results[name]) for name in presets}
        path = benchmark.write(options.output, "pinned_h2d", accelerator, record)
        console.print(f"written to {path}")
    if options.timelines:
        save_timelines(accelerator, options.timelines)
        console.print(f"recordings in {options.timelines}")


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, StepConfig]:
    presets = {"small": StepConfig.small()}
    if not quick and benchmark.fits(accelerator, GEMMA_BYTES):
        presets["gemma_like"] = StepConfig.gemma_like()
    return presets


def measure(
    accelerator: Accelerator, config: StepConfig, runs: int, advance: Callable[[], object]
) -> dict:
    """{"prefill" or "decode": {"before" or "after": PrefixStepCost}}"""
    engine = Engine(config, accelerator.device)
    results = {}
    for kind in ("prefill", "decode"):
        variants = {name: partial(ready, engine, kind, name) for name in ("before", "after")}
        costs, recorded = benchmark.measure(accelerator, variants, runs, advance)
        results[kind] = {
            name: PrefixStepCost(**asdict(cost), attention_us=attention_us(recorded[name]))
            for name, cost in costs.items()
        }
    return results


def ready(engine: Engine, kind: str, variant: str) -> benchmark.Step:
    engine.use(variant)
    return getattr(engine, kind)


def attention_us(timeline: debubble.Timeline) -> float:
    work = benchmark.work_of(timeline)
    return statistics.median(event.duration for event in work if ATTENTION in event.name)


def save_timelines(accelerator: Accelerator, folder: Path) -> None:
    """pinned_h2d_before.json and pinned_h2d_after.json: one small prefill step each."""
    folder.mkdir(parents=True, exist_ok=True)
    engine = Engine(StepConfig.small(), accelerator.device)
    for variant in ("before", "after"):
        engine.use(variant)
        engine.prefill()
        timeline = benchmark.record_step(accelerator, engine.prefill)
        timeline.save(folder / f"pinned_h2d_{variant}.json")


def as_table(preset: str, steps: dict, accelerator: Accelerator) -> Table:
    table = benchmark.table_of(preset, accelerator, ["kernel µs", "uploads"])
    for kind, variants in steps.items():
        for variant, cost in variants.items():
            cells = benchmark.cells_of(cost, variants["before"])
            kernel, uploads = f"{cost.attention_us:.1f}", benchmark.uploads(cost.counts)
            table.add_row(kind, variant, *cells, kernel, uploads)
    return table


def as_record(config: StepConfig, steps: dict) -> dict:
    return {
        "config": asdict(config) | {"dtype": str(config.dtype)},
        "steps": {
            kind: {variant: asdict(cost) for variant, cost in variants.items()}
            for kind, variants in steps.items()
        },
    }


if __name__ == "__main__":
    main()
