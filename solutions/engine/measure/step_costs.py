"""Measures what an engine's steps, batches and requests cost, with and without each optimisation:
`python -m solutions.engine.bench`."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial

from rich.console import Console
from rich.progress import track

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import (
    Advance,
    Benchmark,
    StepInARowCost,
    idle_in_a_row,
    in_turns,
    time_in_a_row,
)
from solutions.measure.variant_table import VariantTable

from .latency import report_latency
from .presets import EnginePreset, PrefixPreset, ServingPreset
from .recordings import record_all
from .shared_prefixes import measure_prefixes
from .steps import KINDS, Decodes
from .throughput import measure_rates, report_rates
from .variants import Engines, EnginesOf

STEPS_IN_A_ROW = {True: {"decode": 3, "prefill": 1}, False: {"decode": 16, "prefill": 2}}
"""How many steps are measured in a row, by kind of step: True has the numbers for sim, which
computes every step, and False those for a GPU."""
MOST_ROUNDS = 7
"""The most times that each variant's row of steps is measured."""
SMALL_LOAD_MS = {True: 5.0, False: 15.0}
"""Milliseconds of work before a step that is recorded for a picture, on sim (True) and on a GPU
(False): enough for the host to queue a step of one graph, under a profiler."""
MOST_RUNS = 5
"""The most times that a single step after a load is measured: the row of steps counts more here."""
DRAWN = ("none", "all")
"""The variants whose decode step is recorded for a picture."""
LLAMA_BYTES = 48 * 2**30
"""Bytes of GPU memory that llama_3_8b needs: for weights, and for the caches and graphs of an
engine for each variant."""


@dataclass(frozen=True)
class EngineStepCost(StepInARowCost):
    tokens_per_s: float
    """Tokens that a row of steps computes in a second: of answers in decodes, else of prompts."""
    idle_by_cause: dict[str, float]
    """Shares of the time of a step after a load, 0 to 1, in which the device idles, by cause. That
    step is recorded, which slows the host: the shares don't add up to `idle_share`."""


StepCosts = dict[str, dict[str, EngineStepCost]]
"""The costs of a step, by kind of step and by variant."""

IN_A_ROW = VariantTable[EngineStepCost](
    "steps in a row",
    lambda cost: 1 / cost.loop_us,
    {
        "ms": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "tokens/s": lambda cost: f"{cost.tokens_per_s:.0f}",
        "idle": lambda cost: f"{idle_in_a_row(asdict(cost)):.0%}",
    },
)


def main(arguments: list[str] | None = None) -> None:
    options = benchmark.parse_options("engine", __doc__, arguments)
    accelerator, console = debubble.accelerator(), Console()
    presets = {
        name: preset.of_runs(options.runs)
        for name, preset in choose_presets(accelerator, options.quick).items()
    }
    prefixes = choose_prefixes(accelerator, options.quick)
    engines_of = {}
    for name, preset in presets.items():
        making = f"engines of {name}"
        with took(console, making):
            engines = engines_of[preset] = Engines(preset.config, accelerator)
            for variant in track(engines.variants, making, console=console, transient=True):
                engines[variant]  # compiles, and captures
    with took(console, "steps"):
        costs = benchmark.run(describe(presets, engines_of), accelerator, options)
        console.print(IN_A_ROW.of(costs, accelerator))
    with took(console, "latency"):
        report_latency(accelerator, presets, engines_of, console, options.output)
    with took(console, "throughput"):
        rates = measure_rates(accelerator, presets, engines_of, console)
    engines_of.clear()
    gc.collect()
    with took(console, "long prefixes"):
        rates |= measure_prefixes(accelerator, prefixes, console)
    measured: dict[str, EnginePreset] = {**presets, **prefixes}
    report_rates(accelerator, measured, rates, console, options.output)


@contextmanager
def took(console: Console, what: str) -> Iterator[None]:
    """Prints how many seconds the benchmark spent in the block, as "steps: took 3 s" if `what` is
    "steps"."""
    started = time.perf_counter()
    yield
    console.print(f"{what}: took {time.perf_counter() - started:.0f} s")


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, ServingPreset]:
    """Returns the presets, by name, that this accelerator has memory and time for."""
    if accelerator.modelled:
        return {"hybrid": ServingPreset.hybrid_on_sim()}
    presets = {"hybrid": ServingPreset.hybrid()}
    if not quick and benchmark.fits(accelerator, LLAMA_BYTES):
        presets["llama_3_8b"] = ServingPreset.llama_3_8b()
    return presets


def choose_prefixes(accelerator: Accelerator, quick: bool) -> dict[str, PrefixPreset]:
    """Returns one preset, by name: the large one if this accelerator has memory for it, else the
    tiny one. Call it while the accelerator's memory is empty."""
    rank = PrefixPreset.llama_3_70b_rank()
    if not quick and benchmark.fits(accelerator, rank.gpu_bytes):
        return {"llama_3_70b_rank": rank}
    return {"tiny": PrefixPreset.tiny()}


def describe(presets: Mapping[str, ServingPreset], engines_of: EnginesOf) -> Benchmark:
    return Benchmark(
        "engine",
        presets,
        partial(measure, engines_of),
        len(KINDS) * max(len(engines.variants) for engines in engines_of.values()),
        {
            "syncs": lambda cost: str(cost.counts["host_syncs"]),
            "graphs": lambda cost: str(cost.counts["graph_launches"]),
        },
        partial(record_decodes, presets, engines_of),
    )


def measure(
    engines_of: EnginesOf,
    accelerator: Accelerator,
    preset: ServingPreset,
    runs: int,
    advance: Advance,
) -> StepCosts:
    engines = engines_of[preset]
    return {kind: measure_kind(accelerator, preset, engines, kind, runs, advance) for kind in KINDS}


def measure_kind(
    accelerator: Accelerator,
    preset: ServingPreset,
    engines: Engines,
    kind: str,
    runs: int,
    advance: Advance,
) -> dict[str, EngineStepCost]:
    steps = {variant: KINDS[kind](engines[variant], preset) for variant in engines.variants}
    ready = {variant: of_variant.ready for variant, of_variant in steps.items()}
    costs, recorded = benchmark.measure_step(accelerator, ready, min(runs, MOST_RUNS), advance)
    num_steps = STEPS_IN_A_ROW[accelerator.modelled][kind]
    times: dict[str, list[float]] = {variant: [] for variant in steps}
    for variant in in_turns(steps, min(runs, MOST_ROUNDS)):
        steps[variant].ready(num_steps)
        row = partial(steps[variant].row, num_steps)
        times[variant].append(time_in_a_row(accelerator, row, num_steps))
    for of_variant in steps.values():
        of_variant.stop()
    loops = {variant: lower_quartile(times[variant]) for variant in steps}
    return {
        variant: EngineStepCost(
            **asdict(costs[variant]),
            loop_us=loops[variant],
            tokens_per_s=steps[variant].tokens / loops[variant] * 1e6,
            idle_by_cause={
                cause: share
                for cause, share in recorded[variant].idle_by_cause(ignore_sleep=True).items()
            },
        )
        for variant in steps
    }


def lower_quartile(times: list[float]) -> float:
    """Returns the lower quartile of `times`. A host that is shared with other programs runs at
    several speeds, and changes between them at any time: so the faster rounds are compared."""
    return sorted(times)[(len(times) - 1) // 4]


def record_decodes(
    presets: Mapping[str, ServingPreset], engines_of: EnginesOf, accelerator: Accelerator
) -> Iterator[tuple[str, debubble.Timeline]]:
    """Yields (variant, recording) of a decode step of the hybrid model for a picture, and the
    recordings of Llama that chapter 06 shows."""
    for variant in DRAWN:
        decodes = Decodes(engines_of[presets["hybrid"]][variant], presets["hybrid"])
        step = decodes.ready()
        step()
        load_ms = SMALL_LOAD_MS[accelerator.modelled]
        timeline = benchmark.record_step(accelerator, step, load_ms)
        decodes.stop()
        yield variant, timeline
    if "llama_3_8b" in presets:
        yield from record_all(accelerator, engines_of[presets["llama_3_8b"]].model)
