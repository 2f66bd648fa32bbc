"""Measures the same step with fewer and with more tokens: `python -m
solutions.gdn.measure.step_sizes`."""

from __future__ import annotations

from dataclasses import replace

from debubble.accelerator import Accelerator, current
from solutions.measure import benchmark
from solutions.measure.benchmark import Benchmark

from .prefill_step import MEASURED, GDNWorkload, measure

TOKENS = (1024, 4096, 8192, 16384)
"""Tokens of the steps: of `GDNWorkload.serving()`, and of the same prompts shorter and longer."""
RUNS = 4
"""The most times that a step, and a row of steps, is measured."""
LARGEST_BYTES = 32 * 2**30
"""Bytes of GPU memory that the largest step needs."""


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("gdn", __doc__)
    parser.prog = "python -m solutions.gdn.measure.step_sizes"
    columns = {
        "loop": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "syncs": lambda cost: str(cost.counts["host_syncs"]),
    }
    options = benchmark.options_of(parser, arguments)
    options.runs, options.timelines = min(options.runs, RUNS), None
    accelerator = current()
    presets = choose_presets(accelerator, options.quick)
    own = Benchmark(
        "gdn_sizes", presets, measure, len(MEASURED), columns, lambda accelerator: iter(())
    )
    benchmark.run(own, accelerator, options)


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, GDNWorkload]:
    """Returns the workloads by name, "1024 tokens" for example. Without much GPU memory, and if
    `quick`, they are the small model's step and one of twice the tokens."""
    if quick or not benchmark.fits(accelerator, LARGEST_BYTES):
        few = GDNWorkload.small()
        sizes = [few, scaled(few, 2 * num_tokens_of(few))]
    else:
        sizes = [scaled(GDNWorkload.serving(), num_tokens) for num_tokens in TOKENS]
    return {f"{num_tokens_of(workload)} tokens": workload for workload in sizes}


def scaled(workload: GDNWorkload, num_tokens: int) -> GDNWorkload:
    """Returns the workload with `num_tokens` tokens in all: each prompt is shorter or longer by the
    same factor."""
    now = num_tokens_of(workload)
    lengths = tuple(length * num_tokens // now for length in workload.prompt_lens)
    return replace(workload, prompt_lens=lengths)


def num_tokens_of(workload: GDNWorkload) -> int:
    return sum(workload.prompt_lens)


if __name__ == "__main__":
    main()
