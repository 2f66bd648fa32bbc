"""Measures a batch: the time from its first request to its last token."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from debubble.accelerator import Accelerator
from solutions.measure.benchmark import Advance, by_preset, in_turns, time_in_a_row, write_record
from solutions.measure.variant_table import VariantTable

from ..engine import Engine
from ..requests.request import SamplingParams
from ..requests.workload import Asked, alike_prompts
from .presets import ServingPreset
from .variants import Engines, EnginesOf, all_but, finish, serve

NAME = "engine_latency"
PIECEWISE = all_but("flex_full_graph")
WARM_UP_TOKENS = 3
"""Tokens of each answer in the warm-up: enough for a prefill and a decode, however far the host is
ahead."""


@dataclass(frozen=True)
class Latency:
    """The time that a batch of requests takes from its first request to its last token."""

    runs: int
    seconds: float
    """The median time of the runs."""
    tokens_per_s: float
    """Generated tokens a second."""


TABLE = VariantTable[Latency](
    "a batch, from its first request to its last token",
    lambda latency: 1 / latency.seconds,
    {
        "ms": lambda latency: f"{latency.seconds * 1e3:.1f}",
        "tokens/s": lambda latency: f"{latency.tokens_per_s:.0f}",
    },
)


def report_latency(
    accelerator: Accelerator,
    presets: Mapping[str, ServingPreset],
    engines_of: EnginesOf,
    console: Console,
    folder: Path | None,
) -> None:
    """Measures the latency of each preset's batch, prints a table, and writes it to `folder` unless
    that is None."""
    figures = {}
    with Progress(console=console, transient=True) as progress:
        for name, preset in presets.items():
            task = progress.add_task(
                f"latency, {name}", total=preset.runs * len(measured(engines_of[preset]))
            )
            advance = partial(progress.advance, task)
            engines = engines_of[preset]
            figures[name] = {"batch": measure_latency(accelerator, preset, engines, advance)}
    console.print(TABLE.of(figures, accelerator))
    if folder is not None:
        contents = {"presets": by_preset(presets, figures)}
        write_record(folder / f"{NAME}.json", NAME, accelerator, contents)


def measured(engines: Engines) -> tuple[str, ...]:
    """Returns the names of the variants whose latency is measured: those of `engines`, and last
    the one from which chapter 04 starts, with all optimisations but flex_full_graph."""
    return (*engines.variants, PIECEWISE)


def measure_latency(
    accelerator: Accelerator, preset: ServingPreset, engines: Engines, advance: Advance
) -> dict[str, Latency]:
    variants = measured(engines)
    if not accelerator.modelled:
        for variant in variants:
            finish(engines[variant], batch_of(preset, 0, WARM_UP_TOKENS))
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    for variant in in_turns(variants, preset.runs):
        run = 1 + len(times[variant])
        requests = batch_of(preset, run, preset.latency_tokens[1])
        times[variant].append(batch_us(accelerator, engines[variant], requests))
        advance()
    return {variant: latency_of(times[variant], preset) for variant in variants}


def batch_of(preset: ServingPreset, run: int, max_tokens: int) -> list[Asked]:
    """Returns the requests of a batch, with new prompts for each `run`, so that no prefix of an
    earlier run is found."""
    num_tokens, _ = preset.latency_tokens
    prompts = alike_prompts(
        preset.config.model, preset.batch, num_tokens, preset.image_tokens, [2, run]
    )
    return [Asked(prompt, SamplingParams(max_tokens=max_tokens)) for prompt in prompts]


def batch_us(accelerator: Accelerator, engine: Engine, requests: list[Asked]) -> float:
    microseconds = time_in_a_row(accelerator, partial(serve, engine, requests), 1)
    engine.run()
    return microseconds


def latency_of(microseconds: list[float], preset: ServingPreset) -> Latency:
    seconds = statistics.median(microseconds) / 1e6
    return Latency(len(microseconds), seconds, preset.batch * preset.latency_tokens[1] / seconds)
