"""Measures a decode step, eagerly, in pieces and in one graph: `python -m
solutions.flex_graph.bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepInARowCost, in_a_row

from ..model.config import FlexConfig
from ..step import VARIANTS, FlexStep
from ..steps.limits import ALONE, Limits
from ..steps.scheduled import ScheduledBatch
from ..steps.workload import Requests
from .against_peer import FEW, LESSON, OurSteps, measure_against_peer, peer_shape
from .step_limits import measure_limits

STEPS_IN_A_ROW = {True: 3, False: 32}
"""Number of decode steps in a row, if times are modelled (True) or not: sim computes every step.
LOOPS and SMALL_LOAD_MS have the same keys."""
LOOPS = {True: 1, False: 6}
SMALL_LOAD_MS = {True: 5.0, False: benchmark.PROFILED_LOAD_MS}
"""Milliseconds for which the device is kept busy before a small step, so that the host can queue
the step under a profiler."""
LLAMA_BYTES = 24 * 2**30


@dataclass(frozen=True, kw_only=True)
class FlexWorkload(FlexConfig):
    """A model's sizes, and the requests that it decodes: one token of each in every step."""

    cached: tuple[int, ...]
    """Number of tokens of each request that are in the cache before the first step."""
    num_gpu_blocks: int
    q_block: int = 16
    """Number of consecutive tokens that share a list of pages."""

    @classmethod
    def narrow(cls) -> FlexWorkload:
        """Returns a workload of 4 requests, with a model as deep as the small one, and narrow
        enough for sim to compute in a moment."""
        narrow = replace(FlexConfig.tiny(), num_layers=FlexConfig.small().num_layers)
        return cls(**asdict(narrow), cached=(5, 12, 20, 40), num_gpu_blocks=64)

    @classmethod
    def small(cls) -> FlexWorkload:
        return cls(**asdict(FlexConfig.small()), cached=tuple(range(32, 96, 8)), num_gpu_blocks=256)

    @classmethod
    def llama_3_8b(cls) -> FlexWorkload:
        """Returns a workload of 8 requests of 512 to 960 tokens for Llama-3-8B's shape, and a cache
        with room for many more. All its steps are decode steps, in which no two tokens share a
        page."""
        cached, config = tuple(range(512, 1024, 64)), asdict(FlexConfig.llama_3_8b())
        return cls(**config, cached=cached, num_gpu_blocks=4096, q_block=ALONE)

    def limits(self) -> Limits:
        longest = max(self.cached) + max(STEPS_IN_A_ROW.values()) + 1
        return Limits(
            max_num_seqs=len(self.cached),
            max_num_batched_tokens=2 * len(self.cached),
            max_model_len=-(-longest // 64) * 64,
            num_gpu_blocks=self.num_gpu_blocks,
            q_block=self.q_block,
        )

    def batches(self, num_steps: int) -> list[ScheduledBatch]:
        """Returns the batches of consecutive decode steps, each with one token of every request."""
        requests = Requests(self.limits(), vocab_size=self.vocab_size)
        return [
            requests.batch([range(length + step, length + step + 1) for length in self.cached])
            for step in range(num_steps)
        ]


def main(arguments: list[str] | None = None) -> None:
    columns = {
        "loop": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "syncs": lambda cost: str(cost.counts["host_syncs"]),
        "graphs": lambda cost: str(cost.counts["graph_launches"]),
    }
    options = benchmark.parse_options("flex_graph", __doc__, arguments)
    accelerator = debubble.accelerator()
    presets = choose_presets(accelerator, options.quick)
    own = Benchmark("flex_graph", presets, measure, len(VARIANTS), columns, record_small_steps)
    benchmark.run(own, accelerator, options)
    measure_limits(accelerator, Console(), options.output)
    if "llama_3_8b" in presets and not accelerator.modelled:
        compare_with_peer(accelerator, presets["llama_3_8b"], options.output)


def compare_with_peer(
    accelerator: Accelerator, workload: FlexWorkload, folder: Path | None
) -> None:
    """Measures steps of `workload` in one graph, with FlexAttention and with the kernel for few
    tokens, beside those of a compiled PyTorch model, and prints the times."""
    variants = Variants(workload, accelerator)
    shape = peer_shape(
        workload, workload.cached, workload.limits().max_model_len, len(variants.batches)
    )
    ours = {LESSON: variants.in_one_graph(), FEW: variants.in_one_graph_with_kernel_for_few()}
    measure_against_peer(accelerator, Console(), folder, shape, ours)


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, FlexWorkload]:
    """Returns the workloads that this accelerator can run, by name: fewer on sim and with
    `quick`."""
    presets = {"narrow": FlexWorkload.narrow()}
    if not accelerator.modelled:
        presets["small"] = FlexWorkload.small()
    if not quick and benchmark.fits(accelerator, LLAMA_BYTES):
        presets["llama_3_8b"] = FlexWorkload.llama_3_8b()
    return presets


def measure(
    accelerator: Accelerator, workload: FlexWorkload, runs: int, advance: Advance
) -> dict[str, dict[str, StepInARowCost]]:
    """Returns, under "decode" and by variant, the cost of a step: measured by itself, and in a row
    of steps."""
    variants = Variants(workload, accelerator)
    costs, _ = benchmark.measure_step(accelerator, variants.steps(), runs, advance)

    def ready_row(name: str) -> benchmark.Step:
        variants.ready(name)
        return partial(variants.row, name)

    rows = {name: partial(ready_row, name) for name in VARIANTS}
    loops = in_a_row(accelerator, rows, len(variants.batches), LOOPS[accelerator.modelled])
    return {
        "decode": {
            name: StepInARowCost(**asdict(cost), loop_us=loops[name])
            for name, cost in costs.items()
        }
    }


class Variants:
    """One model and its batches, for measuring all variants on the same work."""

    def __init__(self, workload: FlexWorkload, accelerator: Accelerator) -> None:
        self.batches = workload.batches(STEPS_IN_A_ROW[accelerator.modelled])
        sizes = (len(workload.cached),)
        self.step = FlexStep(workload, workload.limits(), accelerator.device, capture_sizes=sizes)

    def steps(self) -> dict[str, Callable[[], benchmark.Step]]:
        """Returns, by variant, a function that switches to the variant and returns the step to
        measure."""
        return {name: partial(self.ready, name) for name in VARIANTS}

    def ready(self, variant: str) -> benchmark.Step:
        """Switches to a variant and returns its first step, as a function to call."""
        self.step.use(variant)
        return partial(self.step.run, self.batches[0])

    def row(self, variant: str) -> None:
        """Runs a row of steps in the current variant. The variant "mask_once" gets the same batch
        every time: for another batch it would build."""
        for batch in self.batches:
            self.step.run(self.batches[0] if variant == "mask_once" else batch)

    def in_one_graph(self) -> OurSteps:
        """Captures a graph of the model as it is now, and returns its steps. They keep this graph
        if the model changes later."""
        self.step.runners.pop("full", None)
        self.step.use("full")
        run = self.step.runner.step
        return OurSteps(
            first=partial(run, self.batches[0]),
            row=lambda: [run(batch) for batch in self.batches],
        )

    def in_one_graph_with_kernel_for_few(self) -> OurSteps:
        """Returns the steps of a second graph with the same weights and cache, in which `attend`
        takes the place of FlexAttention from now on."""
        for layer in self.step.model.layers.values():
            layer.attention.use_kernel_for_few_tokens()
        return self.in_one_graph()


def record_small_steps(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records one step of each variant, of the narrow model on sim and of the small one elsewhere,
    and yields the variant's name and timeline."""
    workload = FlexWorkload.narrow() if accelerator.modelled else FlexWorkload.small()
    for variant, ready in Variants(workload, accelerator).steps().items():
        step = ready()
        step()
        yield variant, benchmark.record_step(accelerator, step, SMALL_LOAD_MS[accelerator.modelled])
