"""Measures loads of KV blocks from CPU memory, by one DMA batch and by the chosen path: `python -m
solutions.offload.bench`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import debubble
from debubble.accelerator import Accelerator
from solutions.measure import benchmark
from solutions.measure.benchmark import Advance, Benchmark, StepCost

from .. import before
from .. import handler as after
from ..serving_loop.config import ServingConfig
from ..serving_loop.serving import Server
from ..transfers import LoadingHandler
from .beside_steps import report_beside_steps
from .grid import ROUNDS, Copy
from .grid_report import report_grid
from .kernel_steps import report_steps
from .peers import peer_swap
from .serving_rate import report_serving

FEW = replace(
    ServingConfig.small(),
    num_layers=8,
    prefix_tokens=2048,
    num_requests=4,
    new_tokens=4,
    max_running=2,
)
"""The serving workload that is recorded on a GPU: a picture has room for a few requests and
steps."""
VARIANTS: dict[str, LoadingHandler] = {
    "before": before.loading_handler,
    "after": after.loading_handler,
}
"""The function of each variant that makes the handler of the loads."""


def main(arguments: list[str] | None = None) -> None:
    columns = {
        "copies": lambda cost: str(cost.counts["h2d_pinned"]),
        "kernels": lambda cost: str(cost.counts["kernels"]),
        "syncs": lambda cost: str(cost.counts["host_syncs"]),
    }
    parser = benchmark.option_parser("offload", __doc__)
    parser.add_argument(
        "--peer",
        type=_peer,
        metavar="PATH",
        help="vLLM's swap_blocks_triton.py, to measure its copies beside ours",
    )
    options, accelerator = benchmark.options_of(parser, arguments), debubble.accelerator()
    console, presets = Console(), choose_presets(accelerator, options.quick)
    own = Benchmark("offload", presets, measure, len(VARIANTS), columns, record_serving)
    benchmark.run(own, accelerator, options)
    report_serving(accelerator, presets, VARIANTS, console, options.output)
    rounds = min(options.runs, ROUNDS)
    report_grid(accelerator, console, options.output, options.quick, rounds, options.peer)
    report_steps(accelerator, console, options.output, rounds)
    report_beside_steps(accelerator, console, options.output, rounds)


def _peer(path: str) -> Callable[[int], Copy]:
    try:
        return peer_swap(Path(path))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, ServingConfig]:
    presets = {"narrow": ServingConfig.tiny()}
    if accelerator.modelled:
        presets["of chapter 05"] = ServingConfig.of_the_chapter()
    else:
        presets["small"] = ServingConfig.small()
    rank = ServingConfig.llama_3_70b_rank()
    if not quick and benchmark.fits(accelerator, rank.gpu_bytes):
        presets["llama_3_70b_rank"] = rank
    return presets


def measure(
    accelerator: Accelerator, config: ServingConfig, runs: int, advance: Advance
) -> dict[str, dict[str, StepCost]]:
    """Returns, under "load" and by variant, the cost of loading one request's prefix while nothing
    else runs."""
    server = Server(config, accelerator.device)
    steps = {name: _load_of(server, handler) for name, handler in VARIANTS.items()}
    costs, _ = benchmark.measure_step(accelerator, steps, runs, advance)
    return {"load": costs}


def record_serving(accelerator: Accelerator) -> Iterator[tuple[str, debubble.Timeline]]:
    """Records how each variant serves a few requests, with their loads beside other requests'
    steps, and yields the variant's name and timeline."""
    config = ServingConfig.tiny() if accelerator.modelled else FEW
    server = Server(config, accelerator.device)
    for name, handler in VARIANTS.items():
        load = handler(server.groups)
        server.serve(load)  # compiles, and fills the pools
        accelerator.synchronize()
        with benchmark.no_garbage(), debubble.record(accelerator) as timeline:
            server.serve(load)
        yield name, timeline


def _load_of(server: Server, handler: LoadingHandler) -> Callable[[], benchmark.Step]:
    """Returns a function that returns a step for `measure_step`: the step queues the load of one
    prefix by this handler, and makes the current stream wait for it."""
    load = handler(server.groups)
    return lambda: lambda: server.load_one(load)
