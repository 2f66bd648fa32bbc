"""Measures the host's work in a decode step of the engine: its builders of metadata, and the whole
step, in turns with another checkout of the project. Run as a file, it is the process of one of the
two: so it imports nothing that an older checkout lacks before it needs it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np

import debubble
from debubble.accelerator import current

if TYPE_CHECKING:
    from solutions.engine import Engine
    from solutions.engine.model.config import LayerKind

ROOT = Path(__file__).parents[3]
PATTERN: tuple[LayerKind, ...] = ("flex", "spans", "gdn", "flex")
"""The layers of an engine with four KV groups. The last one has a window, so it is a group of its
own; an engine with fewer groups has the first layers only."""
REQUESTS, REQUESTS_ON_SIM = 256, 8
"""Requests of a step, and of one on sim, which computes every step."""
LATER = 300
"""The most steps whose metadata is built: fewer than the tokens that each request still gets."""
ROUNDS, STEPS = 9, 20
"""How often each checkout has its turn, and the steps of a turn."""


def requests_here() -> int:
    return REQUESTS_ON_SIM if debubble.accelerator().modelled else REQUESTS


def decoding_engine(groups: int, requests: int) -> Engine:
    """Returns a warm engine whose requests all decode, with room for all turns."""
    from solutions.engine import Engine, EngineConfig, SamplingParams

    tiny = EngineConfig.tiny()
    windows = (None, None, None, 32)
    pattern = PATTERN[:groups]
    model = replace(tiny.model, num_layers=groups, pattern=pattern, windows=windows)
    limits = replace(
        tiny.limits,
        max_num_seqs=requests,
        max_num_batched_tokens=16 * requests,
        max_model_len=512,
        num_gpu_blocks=1 + 32 * requests,
    )
    config = replace(tiny, model=model, limits=limits, num_cpu_blocks=0, capture_sizes=(requests,))
    engine, random = Engine(config), np.random.default_rng(0)
    for number in range(requests):
        prompt = random.integers(0, model.vocab_size, 17 + number % 16).tolist()
        engine.add_request(prompt, SamplingParams(max_tokens=limits.max_model_len - 64))
    while not all(len(request.generated) > 3 for request in engine.requests):
        engine.step()
    return engine


def metadata_builder(engine: Engine) -> Callable[[], None]:
    """Returns a function that builds and uploads the metadata of a decode step, for all groups: all
    that lies between the scheduler and the graph's launch. Each call is the step after the one
    before it, up to LATER steps after the engine's last one."""
    from solutions.engine.requests.step_batch import ScheduledRequest, StepBatch
    from solutions.engine.requests.step_view import StepView

    runner, tables = engine.runner, engine.scheduler.tables
    ends = [(request, request.num_computed) for request in engine.requests]
    every = [[(each, end + later) for each, end in ends] for later in range(LATER)]
    steps = iter([[ScheduledRequest(each, end - 1, end, True) for each, end in s] for s in every])

    def build() -> None:
        batch = StepBatch.of(next(steps), tables)
        runner.counted.update(batch)
        runner.inputs.upload(batch)
        view = StepView.of(batch)
        for backend in runner.backends.values():
            backend.renew(view, runner.inputs)

    return build


def timed(call: Callable[[], object], times: int) -> list[float]:
    """Returns the host's microseconds of each call. The device is idle before each, so that no call
    waits for it."""
    taken = []
    for _ in range(times):
        current().synchronize()
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) * 1e6)
    return taken


def python_calls(call: Callable[[], object]) -> int:
    """Returns how many functions of our own code `call` calls, which is the same on any machine."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and f"{os.sep}solutions{os.sep}" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


class Checkout:
    """A process that runs the steps of one checkout, when it is asked to."""

    def __init__(self, folder: Path) -> None:
        others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        kept = [other for other in others if other and Path(other) != ROOT]
        path = [str(folder.resolve()), *kept]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.calls = int(self._read())

    def times(self) -> list[float]:
        """Returns the microseconds of the steps of one turn."""
        assert self._process.stdin is not None
        print(STEPS, file=self._process.stdin, flush=True)
        return [float(us) for us in json.loads(self._read())]

    def stop(self) -> None:
        self._process.communicate()

    def _read(self) -> str:
        """Returns the next line. Raises RuntimeError if the process has ended."""
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        raise RuntimeError(f"the engine's steps failed: {self._process.args!r}")


def measure_engine(folders: dict[str, Path]) -> dict[str, object]:
    """Returns figures of each checkout by its name: calls of a step, and the quartiles of the
    microseconds of builders and of a step. The builders are those of this checkout."""
    requests = requests_here()
    repeats = 2 if current().modelled else 200
    builders = {}
    for groups in range(1, len(PATTERN) + 1):
        build = metadata_builder(decoding_engine(groups, requests))
        build()
        builders[groups] = {"calls": python_calls(build), "us": quartiles(timed(build, repeats))}
    checkouts = {name: Checkout(folder) for name, folder in folders.items()}
    times: dict[str, list[float]] = {name: [] for name in checkouts}
    for turn in range(ROUNDS if not current().modelled else 1):
        for name in sorted(checkouts, reverse=bool(turn % 2)):
            times[name] += checkouts[name].times()
    for checkout in checkouts.values():
        checkout.stop()
    steps = {
        name: {"calls": checkout.calls, "us": quartiles(times[name])}
        for name, checkout in checkouts.items()
    }
    return {"requests": requests, "builders": builders, "steps": steps}


def quartiles(times: list[float]) -> list[float]:
    return [round(us, 1) for us in statistics.quantiles(times, n=4)]


def report(options: Namespace) -> None:
    """Measures, prints the figures, and writes them to `options.output`, if that is given."""
    from solutions.measure.benchmark import write_record

    folders = {"this": ROOT} | ({"other": options.against} if options.against else {})
    figures = measure_engine(folders)
    print(json.dumps(figures, indent=1))
    if options.output:
        path = options.output / "host_bound_engine.json"
        write_record(path, "host_bound_engine", current(), figures)


def serve_turns() -> None:
    """Prints the calls of a step, then the times of as many steps as each line of input says."""
    engine = decoding_engine(1, requests_here())
    print(python_calls(engine.step), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(engine.step, int(line))), flush=True)


if __name__ == "__main__":
    serve_turns()
