"""What was measured on a GPU and lies in assets/: figures, and recordings that agree with them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import debubble
from debubble.assets import ASSETS
from debubble.timeline.correction import as_measured

GPU = "nvidia-h200"


class Measured(NamedTuple):
    """The figures that a system's recordings are of."""

    preset: str
    kind: str


STEPS = {
    "pinned_h2d": Measured("small", "prefill"),
    "sync_free": Measured("small", "decode"),
    "gdn": Measured("small", "prefill"),
    "flex_graph": Measured("small", "decode"),
    "engine": Measured("hybrid", "decode"),
}
"""Systems of which one step was recorded. Another recording is of many steps, and of those there is
no figure."""
PROFILED = "under a profiler, which slows the host: longer than the figures say"


def figures(name: str, gpu: str = GPU) -> dict:
    """A record of assets/benchmarks, as its benchmark wrote it. FileNotFoundError for one that was
    not measured on that GPU."""
    return json.loads((ASSETS / "benchmarks" / gpu / f"{name}.json").read_text(encoding="utf-8"))


def calibration(gpu: str = GPU) -> dict:
    """What a GPU and its host take for the things that sim's clock is made of."""
    return json.loads((ASSETS / "calibration" / f"{gpu}.json").read_text(encoding="utf-8"))


def recording(system: str, variant: str, gpu: str = GPU) -> debubble.Timeline:
    """One step as it was measured: without the load in front of it, and without what a profiler
    added. Where no such step was measured, as it was recorded, and its description says so."""
    timeline = debubble.Timeline.load(ASSETS / "timelines" / gpu / f"{system}_{variant}.json")
    cost = measured_cost(system, variant, gpu)
    if cost is None:
        return replace(timeline, description=f"{timeline.description}, {PROFILED}")
    return as_measured(timeline, cost["device_us"])


def measured_cost(system: str, variant: str, gpu: str = GPU) -> dict | None:
    """The figures of the step that was recorded, or None where it was not measured."""
    if system not in STEPS:
        return None
    preset, kind = STEPS[system]
    return figures(system, gpu)["presets"][preset]["steps"][kind].get(variant)
