"""Measures what a call of a kata's code costs: counts and modelled time on sim, ratios of measured
times on a GPU."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import debubble
from debubble.accelerator import Accelerator

from ..common.subject import Call, Common
from ..instructions import python_instructions
from ..kata_files.catalogue import Catalogue, Kata
from ..teaching.inputs import used
from .under_test import KataCode

SIZED = "    sized="
"""The text in a kata's test file that gives a step of n items: a kata without it has no cost to
measure."""
BEFORE_MS = 0.1
"""Milliseconds of the kernel that is queued before the measured call."""
TURNS, CALLS = 9, 20
"""The turns of each implementation on a GPU, and its calls in a turn."""


class Cost(NamedTuple):
    """The cost of one call."""

    counts: dict[str, int]
    """`Timeline.counts`."""
    sent: int
    """The bytes of all uploads."""
    instructions: int
    """The Python instructions that the host runs, without those of libraries."""
    microseconds: float
    """The modelled time of all work after the kernel that is queued before the call."""


def measurable(catalogue: Catalogue) -> list[Kata]:
    """Returns the katas that have a cost to measure."""
    texts = ((kata, kata.test_path) for kata in catalogue.katas if kata.test_path.is_file())
    return [kata for kata, path in texts if SIZED in path.read_text(encoding="utf-8")]


def inputs_of(kata: Kata) -> Common:
    """Returns `COMMON`, the inputs in the kata's test file."""
    name = f"inputs_of_{kata.name}"
    spec = importlib.util.spec_from_file_location(name, kata.test_path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up here
    spec.loader.exec_module(module)
    common: Common = module.COMMON
    return common


def cost_of(code: KataCode, accelerator: Accelerator, common: Common) -> Cost:
    """Returns the cost of a call with the larger of the two sizes of `common`, after one call that
    compiles and fills what is filled once."""
    call = common.make(code, accelerator)
    _once(call, accelerator, common)
    instructions = python_instructions(partial(call, *_step(accelerator, common)))
    step = _step(accelerator, common)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(BEFORE_MS)
        call(*step)
    events = timeline.events
    before = next(event.end for event in events if event.on_device)
    sent = sum(event.bytes for event in events if (event.copy_kind or "").startswith("h2d"))
    last = max(event.end for event in events)
    counts = timeline.counts() | {"kernels": timeline.counts()["kernels"] - 1}
    return Cost(counts, sent, instructions, max(last - before, 0.0))


def ratios_in_turns(
    codes: Sequence[KataCode], accelerator: Accelerator, common: Common
) -> list[float]:
    """Returns how many times the time of the first implementation each one takes, the median of
    TURNS turns. Each turn times CALLS calls with their work on the device."""
    calls = [common.make(code, accelerator) for code in codes]
    for call in calls:
        _once(call, accelerator, common)
    ratios: list[list[float]] = [[] for _ in calls]
    for _ in range(TURNS):
        times = [_seconds(call, accelerator, common) for call in calls]
        for number, seconds in enumerate(times):
            ratios[number].append(seconds / times[0])
    return [*map(statistics.median, ratios)]


def _seconds(call: Call, accelerator: Accelerator, common: Common) -> float:
    steps = [_step(accelerator, common) for _ in range(CALLS)]
    accelerator.synchronize()
    start = time.perf_counter()
    for step in steps:
        call(*step)
    accelerator.synchronize()
    return time.perf_counter() - start


def _once(call: Call, accelerator: Accelerator, common: Common) -> None:
    used(call(*_step(accelerator, common)))


def _step(accelerator: Accelerator, common: Common) -> tuple[object, ...]:
    assert common.sized is not None, "only katas with `sized` are measured"
    return common.sized(accelerator, common.sizes[1]).arguments
