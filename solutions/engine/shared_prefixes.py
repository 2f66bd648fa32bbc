"""Requests that go on from long prefixes in host memory: how the load is made decides."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import Progress

from debubble.accelerator import Accelerator
from solutions.benchmark import Advance
from solutions.offload.handler import SingleDirectionOffloadingHandler

from .engine import Engine
from .presets import PrefixPreset
from .request import SamplingParams
from .throughput import AT_ONCE, Rate, rate_of
from .variants import Engines, all_but, finish
from .workload import Asked, Prompt, make_prompt, requests_behind

KIND = "shared prefixes"
MEASURED = (all_but("offload_triton"), "all")


class CountedLoads:
    """A handler of loads, which counts them."""

    def __init__(self, handler: SingleDirectionOffloadingHandler) -> None:
        self.handler, self.count = handler, 0

    def transfer_async(self, *transfer: Any) -> None:
        self.count += 1
        self.handler.transfer_async(*transfer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handler, name)


def measure_prefixes(
    accelerator: Accelerator, presets: Mapping[str, PrefixPreset], console: Console
) -> dict[str, dict[str, dict[str, Rate]]]:
    """By preset, kind, and variant."""
    figures = {}
    with Progress(console=console, transient=True) as progress:
        for name, preset in presets.items():
            total = len(MEASURED) * (preset.num_prefixes + 2)
            advance = partial(progress.advance, progress.add_task(f"prefixes, {name}", total=total))
            figures[name] = {KIND: measure_variants(accelerator, preset, advance)}
    return figures


def measure_variants(
    accelerator: Accelerator, preset: PrefixPreset, advance: Advance
) -> dict[str, Rate]:
    """RuntimeError if the variants generate other tokens, or find a prefix on the device."""
    engines = Engines(preset.config, accelerator)
    prefixes = [
        make_prompt(preset.config.model, preset.prefix_tokens, seed=[4, number])
        for number in range(preset.num_prefixes)
    ]
    tokens, rates = {}, {}
    for variant in MEASURED:
        engine = engines[variant]
        store(engine, prefixes, advance)
        scatter_free_blocks(engine)
        engine.offloader.load = CountedLoads(engine.offloader.load)
        tokens[variant] = one_by_one(engine, preset, prefixes)
        advance()
        rates[variant] = measure_rate(accelerator, engine, preset, prefixes)
        advance()
    first, second = MEASURED
    if tokens[first] != tokens[second]:
        raise RuntimeError(f"{first!r} and {second!r} generated other tokens than one another")
    return rates


def store(engine: Engine, prefixes: list[Prompt], advance: Advance) -> None:
    """Computes each prefix once, until it is in host memory."""
    for prefix in prefixes:
        finish(engine, [Asked(prefix, SamplingParams(max_tokens=1))])
        advance()


def scatter_free_blocks(engine: Engine) -> None:
    """In no order, as they are after hours of serving; nothing is found in them any more."""
    blocks = engine.scheduler.blocks
    free = blocks.allocate(blocks.num_free)
    random.Random(engine.config.model.seed).shuffle(free)
    blocks.release(free)


def one_by_one(engine: Engine, preset: PrefixPreset, prefixes: list[Prompt]) -> list[list[int]]:
    """Tokens that depend on nothing but the prefixes: in a step with others sums are taken in
    another order."""
    requests = requests_behind(prefixes, preset.num_compared, preset.new_tokens)
    return [finish(engine, [asked])[0] for asked in requests]


def measure_rate(
    accelerator: Accelerator, engine: Engine, preset: PrefixPreset, prefixes: list[Prompt]
) -> Rate:
    # Those that were compared are the last ones that the device knows.
    order = prefixes[preset.num_compared :] + prefixes[: preset.num_compared]
    requests = requests_behind(order, preset.num_requests, preset.new_tokens)
    before = engine.offloader.load.count
    rate = rate_of(accelerator, engine, requests, AT_ONCE)
    loads = engine.offloader.load.count - before
    if loads < len(requests):
        raise RuntimeError(
            f"{loads} of {len(requests)} requests loaded their prefix: give the device fewer blocks"
        )
    return rate
