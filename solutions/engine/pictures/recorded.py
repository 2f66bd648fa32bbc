"""Decode steps of a model that is too large for most machines, as a GPU recorded them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from debubble.assets import ASSETS
from debubble.timeline import Timeline
from debubble.views.dashboard.run import Run
from debubble.views.dashboard.settings import Amounts
from solutions.measure.stored import PROFILED

from ..measure.moment import Seen
from ..measure.recordings import BATCHES, OPTIMIZATIONS, STEPS, name_of
from .dashboard import TOGGLES as ALL_TOGGLES
from .dashboard import figures

TOGGLES = {name: ALL_TOGGLES[name] for name in OPTIMIZATIONS}
SLIDERS = {"batch": Amounts(BATCHES, "requests")}
FOLDER = ASSETS / "timelines" / "nvidia-h200"


def recorded(on: frozenset[str], values: dict[str, int]) -> Run:
    """Returns the recording with these optimisations on and these slider values. Raises
    TraceFileError if there is none."""
    timeline = Timeline.load(path_of(on, values["batch"]))
    timeline = replace(timeline, description=f"{timeline.description}, {PROFILED}")
    seen = Seen(STEPS, STEPS * values["batch"])
    return Run(timeline, figures(timeline, seen), f"recorded on {timeline.description}")


def path_of(on: frozenset[str], batch: int) -> Path:
    """Returns the path of the benchmark's recording with these optimisations on and `batch`
    requests."""
    return FOLDER / f"engine_{name_of(on, batch)}.json"
