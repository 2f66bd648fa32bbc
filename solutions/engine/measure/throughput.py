"""Measures requests a second: of requests that arrive at once, and of requests that arrive at a
rate."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress

from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.variant_table import Figures, VariantTable

from ..engine import Engine
from ..requests.workload import Asked, poisson_arrivals, varied_requests
from .presets import EnginePreset, ServingPreset
from .variants import Engines, EnginesOf, ask, serve

NAME = "engine_throughput"
AT_ONCE = math.inf
"""The rate of requests that all arrive at the beginning."""
SEEDS = itertools.count()


@dataclass(frozen=True)
class Rate:
    """The throughput of requests, and how long they wait: medians of the runs. Milliseconds count
    from a request's arrival, and are measured on a GPU only, since sim knows its times only at the
    end."""

    runs: int
    requests_per_s: float
    tokens_per_s: float
    """Generated tokens a second."""
    first_token_ms: float | None = None
    """The mean time to a request's first token."""
    first_token_p95_ms: float | None = None
    last_token_ms: float | None = None
    """The mean time to a request's last token."""
    last_token_p95_ms: float | None = None


class Waited(NamedTuple):
    """Seconds from each request's arrival to its first and last token, and from the start until all
    were done."""

    first_token: list[float]
    last_token: list[float]
    all_requests: float


TABLE = VariantTable[Rate](
    "requests",
    lambda rate: rate.requests_per_s,
    {
        "req/s": lambda rate: f"{rate.requests_per_s:.2f}",
        "tok/s": lambda rate: f"{rate.tokens_per_s:.0f}",
        "first ms": lambda rate: _milliseconds(rate.first_token_ms),
        "last ms": lambda rate: _milliseconds(rate.last_token_ms),
    },
)


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def measure_rates(
    accelerator: Accelerator,
    presets: Mapping[str, ServingPreset],
    engines_of: EnginesOf,
    console: Console,
) -> dict[str, dict[str, dict[str, Rate]]]:
    """Measures the throughput of each preset. Returns it by preset, by how requests arrive (such as
    "at once" or "32/s"), and by variant."""
    figures = {}
    with Progress(console=console, transient=True) as progress:
        for name, preset in presets.items():
            rates = (AT_ONCE, *preset.rates)
            total = (preset.runs + len(preset.rates)) * len(engines_of[preset].variants)
            task = progress.add_task(f"throughput, {name}", total=total)
            advance = partial(progress.advance, task)
            figures[name] = {
                kind_of(rate): measure_rate(accelerator, preset, engines_of[preset], rate, advance)
                for rate in rates
            }
    if accelerator.modelled:
        console.print("Requests that arrive at a rate are measured on a GPU.")
    return figures


def kind_of(rate: float) -> str:
    return "at once" if rate == AT_ONCE else f"{rate:g}/s"


def measure_rate(
    accelerator: Accelerator,
    preset: ServingPreset,
    engines: Engines,
    rate: float,
    advance: benchmark.Advance,
) -> dict[str, Rate]:
    if rate == AT_ONCE and not accelerator.modelled:
        for variant in engines.variants:
            warm_run(accelerator, engines[variant], preset, rate)
    rates: dict[str, list[Rate]] = {variant: [] for variant in engines.variants}
    for variant in benchmark.in_turns(engines.variants, preset.runs if rate == AT_ONCE else 1):
        rates[variant].append(warm_run(accelerator, engines[variant], preset, rate))
        advance()
    return {variant: median_of(rates[variant]) for variant in engines.variants}


def warm_run(accelerator: Accelerator, engine: Engine, preset: ServingPreset, rate: float) -> Rate:
    """Returns the measured throughput of a run in which nothing was compiled, of requests that
    arrive at `rate` a second. Runs again until that is so."""
    while True:
        before = accelerator.flex_compilations
        # New tokens each time, so that no prefix is found.
        seed = [3, next(SEEDS)]
        requests = varied_requests(
            preset.config.model,
            preset.num_requests,
            preset.prompt_tokens,
            preset.new_tokens,
            preset.image_tokens,
            seed,
        )
        measured = rate_of(accelerator, engine, requests, rate)
        if accelerator.modelled or accelerator.flex_compilations == before:
            return measured


def rate_of(accelerator: Accelerator, engine: Engine, requests: list[Asked], rate: float) -> Rate:
    num_tokens = sum(asked.sampling.max_tokens for asked in requests)
    if accelerator.modelled:
        seconds = benchmark.time_in_a_row(accelerator, partial(serve, engine, requests), 1) / 1e6
        waits = {}
    else:
        with benchmark.no_garbage():
            waited = serve_as_they_arrive(engine, requests, poisson_arrivals(len(requests), rate))
        seconds, waits = waited.all_requests, waits_of(waited)
    engine.run()
    return Rate(1, len(requests) / seconds, num_tokens / seconds, **waits)


def serve_as_they_arrive(
    engine: Engine, requests: Sequence[Asked], arrivals: Sequence[float]
) -> Waited:
    """Serves requests as they arrive, and returns their waits. `arrivals` are in seconds,
    ascending."""
    assert not engine.has_work, "nothing else is being served"
    started = time.perf_counter()
    coming = deque(zip(arrivals, requests, strict=True))
    arrived: dict[str, float] = {}
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    while coming or engine.has_work:
        now = time.perf_counter() - started
        while coming and coming[0][0] <= now:
            at, asked = coming.popleft()
            arrived[ask(engine, asked)] = at
        if not engine.has_work:
            time.sleep(coming[0][0] - now)
            continue
        ended = engine.step()
        now = time.perf_counter() - started
        for request in engine.scheduler.running:
            if request.generated:
                first.setdefault(request.request_id, now)
        for output in ended:
            first.setdefault(output.request_id, now)
            last[output.request_id] = now
    return Waited(
        [first[request_id] - at for request_id, at in arrived.items()],
        [last[request_id] - at for request_id, at in arrived.items()],
        max(last.values()),
    )


def waits_of(waited: Waited) -> dict[str, float]:
    """Returns the mean and the 95th percentile of the waits in milliseconds, by their names in a
    Rate."""
    waits = {}
    for name in ("first_token", "last_token"):
        seconds = getattr(waited, name)
        waits[f"{name}_ms"] = float(np.mean(seconds)) * 1e3
        waits[f"{name}_p95_ms"] = float(np.percentile(seconds, 95)) * 1e3
    return waits


def median_of(rates: Sequence[Rate]) -> Rate:
    return Rate(
        len(rates),
        statistics.median(rate.requests_per_s for rate in rates),
        statistics.median(rate.tokens_per_s for rate in rates),
        _median_if_known([rate.first_token_ms for rate in rates]),
        _median_if_known([rate.first_token_p95_ms for rate in rates]),
        _median_if_known([rate.last_token_ms for rate in rates]),
        _median_if_known([rate.last_token_p95_ms for rate in rates]),
    )


def _median_if_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) == len(values) else None


def report_rates(
    accelerator: Accelerator,
    presets: Mapping[str, EnginePreset],
    figures: Figures[Rate],
    console: Console,
    folder: Path | None,
) -> None:
    """Prints a table of the figures, and writes them to `folder` unless that is None."""
    console.print(TABLE.of(figures, accelerator))
    if folder is not None:
        path = folder / f"{NAME}.json"
        contents = {"presets": benchmark.by_preset(presets, figures)}
        console.print(f"written to {benchmark.write_record(path, NAME, accelerator, contents)}")
