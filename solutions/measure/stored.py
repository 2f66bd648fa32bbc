"""Loads the GPU measurements in assets/: figures, and recordings that agree with them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import debubble
from debubble.assets import ASSETS
from debubble.timeline.correction import as_measured

GPU = "nvidia-h200"


class Measured(NamedTuple):
    """The preset and kind of step that a system's recordings show."""

    preset: str
    kind: str


STEPS = {
    "pinned_h2d": Measured("small", "prefill"),
    "sync_free": Measured("small", "decode"),
    "gdn": Measured("small", "prefill"),
    "flex_graph": Measured("small", "decode"),
    "engine": Measured("hybrid", "decode"),
}
"""The preset and kind of the one step that each system recorded. Other recordings have many steps,
for which there are no figures."""
PROFILED = "under a profiler, which slows the host: longer than the figures say"


def figures(name: str, gpu: str = GPU) -> dict:
    """Returns a record of assets/benchmarks, as its benchmark wrote it. Raises FileNotFoundError if
    it was not measured on that GPU."""
    return json.loads((ASSETS / "benchmarks" / gpu / f"{name}.json").read_text(encoding="utf-8"))


def calibration(gpu: str = GPU) -> dict:
    """Returns the times of a GPU and its host from which sim's clock is made."""
    return json.loads((ASSETS / "calibration" / f"{gpu}.json").read_text(encoding="utf-8"))


def recording(system: str, variant: str, gpu: str = GPU) -> debubble.Timeline:
    """Returns one step as it was measured: without the load before it, and without the time that a
    profiler added. If no such step was measured, returns the recording as it is, with a description
    that says so."""
    timeline = debubble.Timeline.load(ASSETS / "timelines" / gpu / f"{system}_{variant}.json")
    cost = measured_cost(system, variant, gpu)
    if cost is None:
        return replace(timeline, description=f"{timeline.description}, {PROFILED}")
    return as_measured(timeline, cost["device_us"])


def measured_cost(system: str, variant: str, gpu: str = GPU) -> dict | None:
    """Returns the figures of the step that was recorded, or None if it was not measured."""
    if system not in STEPS:
        return None
    preset, kind = STEPS[system]
    return figures(system, gpu)["presets"][preset]["steps"][kind].get(variant)
