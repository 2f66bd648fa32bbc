"""Measures the requests per second of a serving loop, by the way in which prefixes are loaded."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from debubble.accelerator import Accelerator
from solutions.measure.benchmark import by_preset, in_turns, time_in_a_row, write_record
from solutions.measure.variant_table import VariantTable

from ..serving_loop.config import ServingConfig
from ..serving_loop.serving import Server
from ..transfers import LoadingHandler

NAME = "offload_serving"
RUNS = {True: 1, False: 3}
"""Number of timings per variant: 1 if times are modelled (True), since these never vary, else 3."""


@dataclass(frozen=True)
class ServingRate:
    runs: int
    requests_per_s: float
    tokens_per_s: float
    """Generated tokens per second, not counting the tokens of the prefixes."""


TABLE = VariantTable(
    "requests served",
    lambda rate: rate.requests_per_s,
    {
        "requests/s": lambda rate: f"{rate.requests_per_s:.2f}",
        "tokens/s": lambda rate: f"{rate.tokens_per_s:.1f}",
    },
)


def report_serving(
    accelerator: Accelerator,
    presets: Mapping[str, ServingConfig],
    variants: Mapping[str, LoadingHandler],
    console: Console,
    folder: Path | None,
) -> None:
    """Measures how many requests per second each variant serves at each preset, prints a table, and
    writes it to `folder` if one is given."""
    rates = {
        name: {"serving": measure_rates(accelerator, config, variants)}
        for name, config in presets.items()
    }
    console.print(TABLE.of(rates, accelerator))
    if folder is not None:
        contents = {"presets": by_preset(presets, rates)}
        write_record(folder / f"{NAME}.json", NAME, accelerator, contents)


def measure_rates(
    accelerator: Accelerator, config: ServingConfig, variants: Mapping[str, LoadingHandler]
) -> dict[str, ServingRate]:
    """Returns how fast each variant serves all requests of `config`, from the first to the last.
    Raises RuntimeError if the variants don't generate the same tokens."""
    server = Server(config, accelerator.device)
    loads = {name: make(server.groups) for name, make in variants.items()}
    tokens = {name: server.serve(load).cpu() for name, load in loads.items()}
    for name, generated in tokens.items():
        if not torch.equal(generated, next(iter(tokens.values()))):
            raise RuntimeError(f"{name} generated different tokens than the other variants")
    times: dict[str, list[float]] = {name: [] for name in loads}
    for name in in_turns(loads, RUNS[accelerator.modelled]):
        serve = partial(server.serve, loads[name])
        times[name].append(time_in_a_row(accelerator, serve, config.num_requests))
    return {name: _rate(per_request, config) for name, per_request in times.items()}


def _rate(request_us: list[float], config: ServingConfig) -> ServingRate:
    requests_per_s = 1e6 / statistics.median(request_us)
    return ServingRate(len(request_us), requests_per_s, requests_per_s * config.new_tokens)
