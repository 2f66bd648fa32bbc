"""What the step costs, as it was and as it is: `python -m solutions.pinned_h2d.bench`.

An upload that waits shows its price only when there is something to wait for. So each step is
measured behind a kernel that keeps the device busy while the host queues the step.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import debubble
from debubble.accelerator import Accelerator

from .config import StepConfig
from .step import Engine

LOAD_MS = 40.0
"""Longer than the host needs to queue a step: afterwards the device never waits for a launch."""
PROFILED_LOAD_MS = 120.0
"""The same under a profiler, which slows every call of the host."""
GEMMA_BYTES = 40 * 2**30
ATTENTION = "prefix_attention_kernel"


@dataclass(frozen=True)
class StepCost:
    """Times in microseconds, medians of `runs`; the device's from the end of the load."""

    runs: int
    device_us: float
    host_us: float
    """Until the host has queued the step; an upload that waits makes it sit out the load too."""
    idle_share: float
    """Of device_us; how long the device is busy comes from a recording."""
    attention_us: float
    """Of one layer's attention kernel."""
    counts: dict[str, int]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="folder for pinned_h2d.json")
    parser.add_argument("--timelines", type=Path, help="folder for recordings of the small step")
    parser.add_argument("--quick", action="store_true", help="few runs, the small model only")
    options = parser.parse_args(arguments)
    accelerator = debubble.accelerator()
    console = Console()
    presets = choose_presets(accelerator, options.quick)
    runs = 1 if accelerator.modelled else 5 if options.quick else 31
    results = {}
    with Progress(console=console, transient=True) as progress:
        for name, config in presets.items():
            task = progress.add_task(name, total=4 * (runs + 1))
            results[name] = measure(accelerator, config, runs, lambda t=task: progress.advance(t))
    for name, steps in results.items():
        console.print(as_table(name, steps, accelerator))
    if options.output:
        path = options.output / "pinned_h2d.json"
        options.output.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(as_record(accelerator, presets, results), indent=2) + "\n")
        console.print(f"written to {path}")
    if options.timelines:
        save_timelines(accelerator, options.timelines)
        console.print(f"recordings in {options.timelines}")


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, StepConfig]:
    presets = {"small": StepConfig.small()}
    if not quick and not accelerator.modelled and torch.cuda.mem_get_info()[0] > GEMMA_BYTES:
        presets["gemma_like"] = StepConfig.gemma_like()
    return presets


def measure(accelerator: Accelerator, config: StepConfig, runs: int, advance) -> dict:
    """{"prefill" or "decode": {"before" or "after": StepCost}}, the variants taking turns."""
    engine = Engine(config, accelerator.device)
    return {
        kind: measure_step(accelerator, engine, kind, runs, advance)
        for kind in ("prefill", "decode")
    }


def measure_step(accelerator, engine: Engine, kind: str, runs: int, advance) -> dict:
    times = {"before": [], "after": []}
    recorded = {}
    for variant in times:
        engine.use(variant)
        if not accelerator.modelled:
            getattr(engine, kind)()  # compiles, and lets the allocators grow
        recorded[variant] = record_step(accelerator, getattr(engine, kind))
        advance()
    for _ in range(runs):
        for variant in times:
            if not accelerator.modelled:
                engine.use(variant)
                times[variant].append(time_step(accelerator, getattr(engine, kind)))
            advance()
    return {variant: step_cost(times[variant], recorded[variant]) for variant in times}


def time_step(accelerator: Accelerator, step) -> tuple[float, float]:
    """(device, host) microseconds of one step behind a loaded queue, without a profiler."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    accelerator.synchronize()
    accelerator.sleep(LOAD_MS)
    first.record()
    started = time.perf_counter()
    step()
    host_us = (time.perf_counter() - started) * 1e6
    last.record()
    accelerator.synchronize()
    return first.elapsed_time(last) * 1e3, host_us


def record_step(accelerator: Accelerator, step) -> debubble.Timeline:
    with no_garbage(), debubble.record(accelerator) as timeline:
        accelerator.sleep(LOAD_MS if accelerator.modelled else PROFILED_LOAD_MS)
        step()
    return timeline


def save_timelines(accelerator: Accelerator, folder: Path) -> None:
    """pinned_h2d_before.json and pinned_h2d_after.json: one small prefill step each."""
    folder.mkdir(parents=True, exist_ok=True)
    engine = Engine(StepConfig.small(), accelerator.device)
    for variant in ("before", "after"):
        engine.use(variant)
        engine.prefill()
        record_step(accelerator, engine.prefill).save(folder / f"pinned_h2d_{variant}.json")


@contextmanager
def no_garbage() -> Iterator[None]:
    """A collection in the middle would be taken for a bubble."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def step_cost(times: list[tuple[float, float]], timeline: debubble.Timeline) -> StepCost:
    """Times from the clock, or from the recording when they are modelled; the rest from there."""
    device = sorted((e for e in timeline.events if e.on_device), key=lambda event: event.start)
    load, *work = device
    busy, end = 0.0, load.end
    for event in work:
        busy += max(0.0, event.end - max(event.start, end))
        end = max(end, event.end)
    if timeline.modelled:
        times = [(end - load.end, max(e.end for e in timeline.events if not e.on_device))]
    device_us = statistics.median(device_us for device_us, _ in times)
    attention = [event.duration for event in work if ATTENTION in event.name]
    return StepCost(
        runs=len(times),
        device_us=device_us,
        host_us=statistics.median(host_us for _, host_us in times),
        idle_share=max(0.0, 1.0 - busy / device_us),
        attention_us=statistics.median(attention),
        counts=timeline.counts(),
    )


def as_table(preset: str, steps: dict, accelerator: Accelerator) -> Table:
    how = "modelled" if accelerator.modelled else "measured"
    title = f"{preset}, {accelerator.description}: {how}, behind {LOAD_MS:g} ms of work"
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("step", ""):
        table.add_column(column, no_wrap=True)
    for column in ("device ms", "ratio", "host ms", "idle", "kernel µs", "uploads"):
        table.add_column(column, justify="right", no_wrap=True)
    for kind, variants in steps.items():
        for variant, cost in variants.items():
            table.add_row(
                kind,
                variant,
                f"{cost.device_us / 1e3:.2f}",
                f"{variants['before'].device_us / cost.device_us:.2f}×",
                f"{cost.host_us / 1e3:.2f}",
                f"{cost.idle_share:.1%}",
                f"{cost.attention_us:.1f}",
                uploads(cost.counts),
            )
    return table


def uploads(counts: dict[str, int]) -> str:
    kinds = {kind: counts[f"h2d_{kind}"] for kind in ("pageable", "pinned")}
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number) or "none"


def as_record(accelerator: Accelerator, presets: dict, results: dict) -> dict:
    return {
        "benchmark": "pinned_h2d",
        "accelerator": accelerator.description,
        "modelled": accelerator.modelled,
        "load_ms": LOAD_MS,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "triton": triton.__version__,
        },
        "presets": {
            name: {
                "config": asdict(config) | {"dtype": str(config.dtype)},
                "steps": {
                    kind: {variant: asdict(cost) for variant, cost in variants.items()}
                    for kind, variants in results[name].items()
                },
            }
            for name, config in presets.items()
        },
    }


if __name__ == "__main__":
    main()
