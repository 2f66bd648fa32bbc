"""Measures a step: the parts that the benchmarks of all lessons share.

A wait costs time only if the device has work to wait for. So each step is queued after a kernel
that keeps the device busy while the host queues the step; its variants take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from rich.console import Console
from rich.progress import Progress

import debubble
from debubble.accelerator import Accelerator
from debubble.contract.packages.installed import installed
from debubble.contract.steps import LOAD, named_step

from .variant_table import Figures, VariantTable

LOAD_MS = 40.0
"""Milliseconds of work that the device has when a step begins. It is longer than the host needs to
queue most steps, so the device waits for no launch, only for a host that waited itself."""
PROFILED_LOAD_MS = 120.0
"""LOAD_MS for a step under a profiler, which slows every call of the host."""

Step = Callable[[], object]
"""A function that queues one step. Its result is dropped."""
Advance = Callable[[], object]
"""A function that moves a progress bar on by one run."""
Variants = Mapping[str, Callable[[], Step]]
"""The variants of a step by name, the baseline first. Each is a function that prepares its step,
and returns the Step to run."""


@dataclass(frozen=True)
class StepCost:
    """The cost of one variant of a step: times in microseconds, medians of `runs` runs."""

    runs: int
    device_us: float
    """Time from the end of the load to the end of the step's last kernel or copy."""
    host_us: float
    """Time that the host takes to queue the step; an upload that waits also waits for the load."""
    idle_share: float
    """The part of device_us, 0 to 1, in which the device does not compute, as defined by
    `Timeline.idle_share`; from a recording."""
    counts: dict[str, int]
    """Timeline.counts() of a recorded step: waits, copies by kind, kernels, graph launches."""


@dataclass(frozen=True)
class StepInARowCost(StepCost):
    """The cost of a step that is also measured in a row of steps, as a server runs them."""

    loop_us: float
    """Microseconds of one step in such a row, where a host that waits has no head start."""


class Record(Protocol):
    """Any dataclass, so that asdict accepts it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class Shape(Record, Protocol):
    """The subject of a measurement, as a dataclass: a model's shape, and its requests."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model's weights."""


Preset = TypeVar("Preset", bound=Shape)
Cost = TypeVar("Cost", bound=StepCost)


@dataclass(frozen=True)
class Benchmark(Generic[Preset, Cost]):
    """The benchmark of one lesson: `run` measures it, prints it and writes it."""

    system: str
    """The name of the benchmark and of its files: `system`.json for the figures, and
    `system`_`variant`.json for the recordings."""
    presets: Mapping[str, Preset]
    """The shapes that are measured, by name."""
    measure: Callable[[Accelerator, Preset, int, Advance], dict[str, dict[str, Cost]]]
    """A function from (accelerator, preset, runs, advance) to costs by kind of step and variant; it
    calls `advance` as often as `measure_step` does."""
    measured_steps: int
    """Number of steps that `measure` measures, for its progress bar: kinds of step times
    variants."""
    columns: Mapping[str, Callable[[Cost], str]]
    """The table's columns after those that all benchmarks have: the cell of a cost, by heading."""
    timelines: Callable[[Accelerator], Iterator[tuple[str, debubble.Timeline]]]
    """A function that yields (variant, recording) of one small step of each variant."""


def run(
    benchmark: Benchmark[Preset, Cost], accelerator: Accelerator, options: argparse.Namespace
) -> Figures[Cost]:
    """Measures all presets, prints a table, and writes what the options ask for. Returns the
    figures by preset, kind and variant. `options` come from parse_options."""
    console = Console()
    runs = 1 if accelerator.modelled else options.runs
    results = {}
    with Progress(console=console, transient=True) as progress:
        for name, preset in benchmark.presets.items():
            task = progress.add_task(name, total=benchmark.measured_steps * (runs + 1))
            advance = partial(progress.advance, task)
            results[name] = benchmark.measure(accelerator, preset, runs, advance)
    console.print(_table(benchmark.columns).of(results, accelerator))
    if options.output:
        contents = {"load_ms": LOAD_MS, "presets": by_preset(benchmark.presets, results)}
        path = options.output / f"{benchmark.system}.json"
        console.print(f"written to {write_record(path, benchmark.system, accelerator, contents)}")
    if options.timelines:
        options.timelines.mkdir(parents=True, exist_ok=True)
        for variant, timeline in benchmark.timelines(accelerator):
            timeline.save(options.timelines / f"{benchmark.system}_{variant}.json")
        console.print(f"recordings in {options.timelines}")
    return results


def parse_options(system: str, description: str, arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line of the benchmark of `system`, which has only the options of all
    benchmarks. Returns them as `options_of` does."""
    return options_of(option_parser(system, description), arguments)


def option_parser(system: str, description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the options of all benchmarks, to which the benchmark of `system` may
    add its own."""
    parser = argparse.ArgumentParser(f"python -m solutions.{system}.bench", description=description)
    parser.add_argument("--output", type=Path, help="folder for the figures, as JSON")
    parser.add_argument("--timelines", type=Path, help="folder for recordings of the small step")
    parser.add_argument("--quick", action="store_true", help="few runs, the small model only")
    parser.add_argument(
        "--runs",
        type=_positive,
        metavar="N",
        help="the most runs of each step (31, or 5 if quick)",
    )
    return parser


def options_of(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Parses the options of all benchmarks: folders `output` and `timelines`, or None, `quick`, and
    `runs`, an integer of at least 1. Reads `arguments`, or the command line if that is None."""
    options = parser.parse_args(arguments)
    options.runs = options.runs or (5 if options.quick else 31)
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it is at least 1, not {text}")
    return int(text)


def fits(accelerator: Accelerator, nbytes: int) -> bool:
    """Returns True on a real GPU that has more than `nbytes` of memory left, and where this process
    may take as much (DEBUBBLE_GPU_MEMORY)."""
    if accelerator.modelled:
        return False
    free, total = torch.cuda.mem_get_info()
    allowed = total * torch.cuda.get_per_process_memory_fraction() - torch.cuda.memory_reserved()
    return min(free, allowed) > nbytes


def measure_step(
    accelerator: Accelerator, variants: Variants, runs: int, advance: Advance
) -> tuple[dict[str, StepCost], dict[str, debubble.Timeline]]:
    """Returns the cost of each variant, and a recording of each. Every variant runs once to warm up
    and once more to be recorded; then all take turns, `runs` times. Calls `advance` after the
    recording of a variant, and after each timed run."""
    times: dict[str, list[tuple[float, float]]] = {variant: [] for variant in variants}
    recorded = {}
    for variant, ready in variants.items():
        step = ready()
        step()  # compiles, and lets the allocators grow
        recorded[variant] = record_step(accelerator, step)
        advance()
    for variant in in_turns(variants, runs):
        if not accelerator.modelled:
            times[variant].append(time_step(accelerator, variants[variant]()))
        advance()
    costs = {variant: step_cost(times[variant], recorded[variant]) for variant in variants}
    return costs, recorded


def in_turns(names: Iterable[str], rounds: int) -> Iterator[str]:
    """Yields each name once a round, in reverse order in every other round, since a variant that
    follows on a hot GPU is slower."""
    order = list(names)
    for _ in range(rounds):
        yield from order
        order.reverse()


def time_step(accelerator: Accelerator, step: Step) -> tuple[float, float]:
    """Returns (device, host) microseconds of one step that is queued after LOAD_MS of work, without
    a profiler."""
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


def time_in_a_row(accelerator: Accelerator, queue: Callable[[], object], num_steps: int) -> float:
    """Returns the microseconds of one step: the time until the device has run all `num_steps` steps
    that `queue()` queues, divided by `num_steps`. On sim the time is modelled."""
    if accelerator.modelled:
        with debubble.record(accelerator) as timeline:
            queue()
        return max(event.end for event in timeline.events) / num_steps
    with no_garbage():
        accelerator.synchronize()
        started = time.perf_counter()
        queue()
        accelerator.synchronize()
        return (time.perf_counter() - started) * 1e6 / num_steps


def in_a_row(
    accelerator: Accelerator,
    rows: Mapping[str, Callable[[], Callable[[], object]]],
    num_steps: int,
    rounds: int,
) -> dict[str, float]:
    """Returns the microseconds of one step in a row of `num_steps`, by variant: medians of `rounds`
    rows, for which the variants take turns. `rows[variant]()` gets a row ready, and returns the
    function that queues it."""
    times: dict[str, list[float]] = {variant: [] for variant in rows}
    for variant in in_turns(rows, rounds):
        times[variant].append(time_in_a_row(accelerator, rows[variant](), num_steps))
    return {variant: statistics.median(of_variant) for variant, of_variant in times.items()}


def always(step: Step) -> Callable[[], Step]:
    """Returns a function that returns `step`, for a step that needs nothing to get it ready."""
    return lambda: step


def repeat(step: Callable[[], object], times: int) -> None:
    for _ in range(times):
        step()


def record_step(
    accelerator: Accelerator, step: Step, load_ms: float | None = None
) -> debubble.Timeline:
    """Returns a recording of one step after `load_ms` of work, whose kernel is the first device
    event. By default that is LOAD_MS on sim, and PROFILED_LOAD_MS on a GPU."""
    if load_ms is None:
        load_ms = LOAD_MS if accelerator.modelled else PROFILED_LOAD_MS
    with no_garbage(), debubble.record(accelerator) as timeline:
        with named_step(LOAD):
            accelerator.sleep(load_ms)
        step()
    return timeline


@contextmanager
def no_garbage() -> Iterator[None]:
    """Collects garbage now, and not in the block, where it would look like a bubble."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def step_cost(times: list[tuple[float, float]], timeline: debubble.Timeline) -> StepCost:
    """Returns the cost of a step, from (device, host) microseconds of each run and a recording of
    one. On sim `times` is not read: the recording has the modelled times."""
    if timeline.modelled:
        load, *work = work_of(timeline)
        end = max(event.end for event in work)
        times = [(end - load.end, max(e.end for e in timeline.events if not e.on_device))]
    computing = timeline.busy(ignore_sleep=True)
    device_us = statistics.median(device_us for device_us, _ in times)
    return StepCost(
        runs=len(times),
        device_us=device_us,
        host_us=statistics.median(host_us for _, host_us in times),
        idle_share=max(0.0, 1.0 - computing / device_us),
        counts=timeline.counts(),
    )


def idle_in_a_row(cost: Mapping[str, float]) -> float:
    """Returns the part, 0 to 1, of a step in a row in which the device does nothing. `cost` is a
    stored StepInARowCost. Its device_us and idle_share, measured behind a load, give the time for
    which the device works; its loop_us is the whole step's."""
    busy_us = cost["device_us"] * (1.0 - cost["idle_share"])
    return max(0.0, 1.0 - busy_us / cost["loop_us"])


class DeviceEvent(Protocol):
    """A kernel, a copy or a fill; its times are microseconds of a timeline."""

    @property
    def name(self) -> str: ...

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def duration(self) -> float: ...


def work_of(timeline: debubble.Timeline) -> list[DeviceEvent]:
    """Returns the device events of a recorded step in time order; the load is the first."""
    return sorted((e for e in timeline.events if e.on_device), key=lambda event: event.start)


def _table(columns: Mapping[str, Callable[[Cost], str]]) -> VariantTable[Cost]:
    return VariantTable(
        f"ms of a step behind {LOAD_MS:g} ms of work",
        lambda cost: 1 / cost.device_us,
        {
            "device": lambda cost: f"{cost.device_us / 1e3:.2f}",
            "host": lambda cost: f"{cost.host_us / 1e3:.2f}",
            "idle": lambda cost: f"{cost.idle_share:.1%}",
            **columns,
        },
    )


def uploads(counts: dict[str, int]) -> str:
    """Returns how many uploads a step has, in words: "768 pageable", "1 pinned" or "none"."""
    kinds = {kind: counts[f"h2d_{kind}"] for kind in ("pageable", "pinned")}
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number) or "none"


def write_record(
    path: Path, name: str, accelerator: Accelerator, contents: Mapping[str, object]
) -> Path:
    """Writes `contents` to `path` as JSON, with the benchmark's name, the accelerator, the day in
    UTC and the versions. Returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "accelerator": accelerator.description,
        "modelled": accelerator.modelled,
        "date": today(),
        "versions": versions(),
        **contents,
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def today() -> str:
    """Returns the day in UTC, as "2026-11-24"."""
    return datetime.now(UTC).date().isoformat()


def versions() -> dict[str, str | None]:
    """Returns the versions of the software that a measured time depends on, by name; None for a
    Triton that was built under another name."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": installed("triton"),
    }


def by_preset(presets: Mapping[str, Shape], results: Figures[Record]) -> dict[str, object]:
    """Returns the contents of a record: each preset's shape, and the costs of its steps by kind and
    variant."""
    return {
        name: {
            "config": asdict(preset) | {"dtype": str(preset.dtype)},
            "steps": {
                kind: {variant: asdict(cost) for variant, cost in variants.items()}
                for kind, variants in results[name].items()
            },
        }
        for name, preset in presets.items()
    }
