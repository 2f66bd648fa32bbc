"""Makes the traces that `debubble.traces` is judged by, on this machine's GPU.

    python -m tests.outside.traces.make FOLDER [--seconds 220] [NAME ...]

For each program of `programs.py`: `NAME.plain.json.gz` and `NAME.stacks.json.gz` as torch.profiler
writes them, and `NAME.kept.json.gz`, the trace that our own recording `NAME.recording.json.gz` was
read from. For each pair of `pairs.py`: traces of both sides without stacks, and in `pairs.json` the
times of a step without a profiler. Programs of other people that lie in build/outside are
profiled whole. What failed, or had no time left, is in `report.json`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import runpy
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import debubble
import debubble.cuda.accelerator
from debubble.accelerator import Accelerator
from solutions.measure.benchmark import in_turns, time_in_a_row, versions
from tests.outside.programs import Program, prepare, programs

from .pairs import PAIRS
from .programs import PROGRAMS, Step

ROUNDS = 7
WARM_UP = 3
MOST_BYTES = 60_000_000
"""Bytes of all files in the folder."""
MOST_BYTES_OF_FILE = 15_000_000
LEFT_OUT = "left out"
FETCHED = ("transformers_generate", "nanogpt", "gpt_fast", "nano_vllm")
"""Programs of the manifest in tests/outside, profiled if they are there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only these programs and pairs")
    parser.add_argument("--seconds", type=float, default=220.0, help="begin nothing after these")
    options = parser.parse_args()
    make_all(options.folder.absolute(), options.names, options.seconds)


def make_all(folder: Path, names: Sequence[str], seconds: float) -> dict[str, object]:
    """Makes the traces of these programs and pairs, or of all, and begins nothing after `seconds`.
    Returns, by name, how long each took, why it failed, or LEFT_OUT, as `report.json` has it."""
    folder.mkdir(parents=True, exist_ok=True)
    accelerator = debubble.accelerator()
    about = {"accelerator": accelerator.description, "versions": versions()}
    report: dict[str, object] = {"about": about}
    began = time.monotonic()
    for name, job in jobs(accelerator, folder).items():
        started = time.monotonic()
        if (names and name not in names) or started - began > seconds:
            report[name] = LEFT_OUT
            continue
        try:
            job()
            report[name] = f"{time.monotonic() - started:.1f} s"
        except BaseException:
            report[name] = traceback.format_exc()[-2000:]
        print(name, str(report[name])[-300:], flush=True)
        (folder / "report.json").write_text(json.dumps(report, indent=1))
    return report


def jobs(accelerator: Accelerator, folder: Path) -> dict[str, Callable[[], None]]:
    """Returns every part of the work by its name, the most needed first."""
    found: dict[str, Callable[[], None]] = {}
    for name in PROGRAMS:
        found[name] = partial(trace_program, accelerator, name, folder)
    for name in PAIRS:
        found[f"pair_{name}"] = partial(measure_pair, accelerator, name, folder)
    known = {program.name: program for program in programs()}
    for name in FETCHED:
        if known[name].is_fetched and not known[name].missing:
            found[name] = partial(trace_fetched, known[name], folder)
    return found


def trace_program(accelerator: Accelerator, name: str, folder: Path) -> None:
    make, steps = PROGRAMS[name]
    step = make(accelerator)
    for _ in range(WARM_UP):
        step()
    for kind, stacks in (("plain", False), ("stacks", True)):
        trace_steps(accelerator, step, steps, stacks, folder / f"{name}.{kind}.json")
    kept = folder / f"{name}.kept.json"
    with kept_trace(kept), debubble.record(accelerator) as timeline:
        for _ in range(steps):
            step()
    if kept.exists():
        compress(kept)
    timeline.save(folder / f"{name}.recording.json")
    compress(folder / f"{name}.recording.json")


def trace_steps(accelerator: Accelerator, step: Step, steps: int, stacks: bool, path: Path) -> None:
    """Profiles `steps` steps as PyTorch's documentation does, after one to warm the profiler up."""
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        with_stack=stacks,
    ) as profiler:
        step()
        accelerator.synchronize()
        profiler.step()
        for _ in range(steps):
            step()
            profiler.step()
    compress(path)


def kept_trace(path: Path) -> patch:
    """Keeps the trace that a recording on CUDA is read from in `path`."""

    def keep(profiler: profile) -> object:
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text(encoding="utf-8", errors="replace"))

    return patch.object(debubble.cuda.accelerator, "_trace_of", keep)


def compress(path: Path) -> None:
    """Replaces a file by a gzip of it. Raises RuntimeError for one with which the folder would be
    larger than MOST_BYTES, and drops it."""
    packed = Path(f"{path}.gz")
    with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=9) as target:
        shutil.copyfileobj(source, target)
    path.unlink()
    size = packed.stat().st_size
    total = sum(each.stat().st_size for each in path.parent.iterdir())
    if size > MOST_BYTES_OF_FILE or total > MOST_BYTES:
        packed.unlink()
        raise RuntimeError(f"{packed.name} of {size:,} bytes has no room")


def measure_pair(accelerator: Accelerator, name: str, folder: Path) -> None:
    """Times both sides of a pair in turns, without a profiler, and then profiles each."""
    pair = PAIRS[name](accelerator, not accelerator.modelled)
    sides = {"before": pair.before, "after": pair.after}
    for side in sides.values():
        side()
    times: dict[str, list[float]] = {side: [] for side in sides}
    rounds = 1 if accelerator.modelled else ROUNDS
    for side in in_turns(sides, rounds):
        times[side].append(time_in_a_row(accelerator, sides[side], pair.steps))
    path = folder / "pairs.json"
    measured = json.loads(path.read_text()) if path.exists() else {}
    medians = {side: round(statistics.median(of_side), 2) for side, of_side in times.items()}
    measured[name] = {"steps": pair.steps, **medians, "rounds": times}
    path.write_text(json.dumps(measured, indent=1))
    for side, row in sides.items():
        trace_row(accelerator, row, False, folder / f"pair_{name}.{side}.plain.json")


def trace_row(accelerator: Accelerator, row: Step, stacks: bool, path: Path) -> None:
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, with_stack=stacks) as warm_up:
        torch.zeros(1, device=accelerator.device)
    del warm_up
    accelerator.synchronize()
    with profile(activities=activities, with_stack=stacks) as profiler:
        with record_function("row"):
            row()
        with record_function("end"):
            accelerator.synchronize()
    profiler.export_chrome_trace(str(path))
    compress(path)


def trace_fetched(program: Program, folder: Path) -> None:
    """Runs a program of other people unchanged in this process, profiled from begin to end."""
    prepare(program)
    script = [str(Path(__file__).parents[1] / program.script)] if program.script else []
    command = [*script, *program.run]
    path = folder / f"{program.name}.plain.json"
    here, argv, known = Path.cwd(), sys.argv, list(sys.path)
    try:
        os.chdir(program.place / program.folder)
        sys.argv = command
        sys.path[:0] = [str(program.place / each) for each in program.path]
        sys.path.insert(0, str(Path(command[0]).absolute().parent))
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        variables = patch.dict(os.environ, program.environment)
        with variables, profile(activities=activities) as profiler:
            try:
                runpy.run_path(command[0], run_name="__main__")
            except SystemExit as ended:
                if ended.code:
                    raise
        profiler.export_chrome_trace(str(path))
    finally:
        sys.argv, sys.path[:] = argv, known
        os.chdir(here)
    compress(path)


if __name__ == "__main__":
    main()
