"""Measures requests that continue from long prefixes in host memory: their rate depends on how
loads are copied."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.progress import Progress

from debubble.accelerator import Accelerator
from solutions.measure.benchmark import Advance
from solutions.offload import TransferResult
from solutions.offload.memory.blocks import Blocks

from ..engine import Engine
from ..memory.offloader import TransferHandler
from ..requests.request import SamplingParams
from ..requests.workload import Asked, Prompt, make_prompt, requests_behind
from .presets import PrefixPreset
from .throughput import AT_ONCE, Rate, rate_of
from .variants import Engines, all_but, finish

KIND = "shared prefixes"
MEASURED = (all_but("offload_triton"), "all")


class CountedLoads:
    """A TransferHandler that passes loads on to `handler`, and counts them."""

    def __init__(self, handler: TransferHandler) -> None:
        self.handler, self.count = handler, 0

    def transfer_async(
        self, job_id: Hashable, gpu_blocks: Sequence[Blocks], cpu_blocks: Sequence[Blocks]
    ) -> None:
        self.count += 1
        self.handler.transfer_async(job_id, gpu_blocks, cpu_blocks)

    def get_finished(self) -> list[TransferResult]:
        return self.handler.get_finished()

    def wait(self, job_ids: Iterable[Hashable]) -> None:
        self.handler.wait(job_ids)


def measure_prefixes(
    accelerator: Accelerator, presets: Mapping[str, PrefixPreset], console: Console
) -> dict[str, dict[str, dict[str, Rate]]]:
    """Measures requests that share long prefixes. Returns their rates by preset, kind of load, and
    variant."""
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
    """Returns the rate of each variant. Raises RuntimeError if the variants generate different
    tokens, or if a request finds its prefix on the device instead of loading it."""
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
        loads = count_loads(engine)
        tokens[variant] = one_by_one(engine, preset, prefixes)
        advance()
        rates[variant] = measure_rate(accelerator, engine, preset, prefixes, loads)
        advance()
    first, second = MEASURED
    if tokens[first] != tokens[second]:
        raise RuntimeError(f"{first!r} and {second!r} generated different tokens")
    return rates


def store(engine: Engine, prefixes: list[Prompt], advance: Advance) -> None:
    """Has the engine compute each prefix once, and waits until it is in host memory."""
    for prefix in prefixes:
        finish(engine, [Asked(prefix, SamplingParams(max_tokens=1))])
        advance()


def scatter_free_blocks(engine: Engine) -> None:
    """Shuffles the free blocks, as they are after hours of serving. Their contents are
    forgotten."""
    blocks = engine.scheduler.blocks
    free = blocks.allocate(blocks.num_free)
    random.Random(engine.config.model.seed).shuffle(free)
    blocks.release(free)


def count_loads(engine: Engine) -> CountedLoads:
    """Replaces the engine's load handler by a CountedLoads, and returns that."""
    assert engine.offloader is not None, "a PrefixPreset has blocks in host memory"
    engine.offloader.load = loads = CountedLoads(engine.offloader.load)
    return loads


def one_by_one(engine: Engine, preset: PrefixPreset, prefixes: list[Prompt]) -> list[list[int]]:
    """Serves the first `num_compared` requests, each alone in its steps, and returns their answers.
    In a step with several requests sums would be taken in another order."""
    requests = requests_behind(prefixes, preset.num_compared, preset.new_tokens)
    return [finish(engine, [asked])[0] for asked in requests]


def measure_rate(
    accelerator: Accelerator,
    engine: Engine,
    preset: PrefixPreset,
    prefixes: list[Prompt],
    loads: CountedLoads,
) -> Rate:
    # The prefixes that were compared are still on the device, so use them last.
    order = prefixes[preset.num_compared :] + prefixes[: preset.num_compared]
    requests = requests_behind(order, preset.num_requests, preset.new_tokens)
    before = loads.count
    rate = rate_of(accelerator, engine, requests, AT_ONCE)
    begun = loads.count - before
    if begun < len(requests):
        raise RuntimeError(
            f"{begun} of {len(requests)} requests loaded their prefix: give the device fewer blocks"
        )
    return rate
