"""Requests a second of a serving loop, by the way in which prefixes are loaded."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from debubble.accelerator import Accelerator
from solutions.benchmark import by_preset, time_in_a_row, write_record

from .config import ServingConfig
from .serving import LoadingHandler, Server

NAME = "offload_serving"
RUNS = {True: 1, False: 3}
"""By whether times are modelled, and so always the same."""


@dataclass(frozen=True)
class ServingRate:
    runs: int
    requests_per_s: float
    tokens_per_s: float
    """Generated ones."""


def report_serving(
    accelerator: Accelerator,
    presets: Mapping[str, ServingConfig],
    variants: Mapping[str, LoadingHandler],
    console: Console,
    folder: Path | None,
) -> None:
    """Prints a table, and writes it to `folder`."""
    rates = {name: measure_rates(accelerator, config, variants) for name, config in presets.items()}
    console.print(_table(rates, accelerator))
    if folder is not None:
        results = {name: {"serving": variants} for name, variants in rates.items()}
        contents = {"presets": by_preset(presets, results)}
        write_record(folder / f"{NAME}.json", NAME, accelerator, contents)


def measure_rates(
    accelerator: Accelerator, config: ServingConfig, variants: Mapping[str, LoadingHandler]
) -> dict[str, ServingRate]:
    """Of all requests of `config` from first to last. RuntimeError if the variants don't generate
    the same tokens."""
    server = Server(config, accelerator.device)
    loads = {name: make(server.groups) for name, make in variants.items()}
    tokens = {name: server.serve(load).cpu() for name, load in loads.items()}
    for name, generated in tokens.items():
        if not torch.equal(generated, next(iter(tokens.values()))):
            raise RuntimeError(f"{name} generated other tokens than the rest")
    times: dict[str, list[float]] = {name: [] for name in loads}
    for _ in range(RUNS[accelerator.modelled]):
        for name, load in loads.items():
            request_us = time_in_a_row(
                accelerator, partial(server.serve, load), config.num_requests
            )
            times[name].append(request_us)
    return {name: _rate(per_request, config) for name, per_request in times.items()}


def _rate(request_us: list[float], config: ServingConfig) -> ServingRate:
    requests_per_s = 1e6 / statistics.median(request_us)
    return ServingRate(len(request_us), requests_per_s, requests_per_s * config.new_tokens)


def _table(rates: Mapping[str, Mapping[str, ServingRate]], accelerator: Accelerator) -> Table:
    how = "modelled" if accelerator.modelled else "measured"
    title = f"serving, {accelerator.description}: {how}"
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("requests", "loads"):
        table.add_column(column, no_wrap=True)
    for column in ("requests/s", "ratio", "tokens/s"):
        table.add_column(column, justify="right", no_wrap=True)
    for preset, variants in rates.items():
        base = next(iter(variants.values()))
        for variant, rate in variants.items():
            table.add_row(
                preset,
                variant,
                f"{rate.requests_per_s:.2f}",
                f"{rate.requests_per_s / base.requests_per_s:.2f}×",
                f"{rate.tokens_per_s:.1f}",
            )
    return table
