"""Decode steps of a model that is too large for most machines, as a GPU recorded them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import debubble
from debubble.accelerator import Accelerator
from debubble.assets import ASSETS
from debubble.timeline import Timeline
from debubble.views.dashboard.run import Run
from solutions.measure.benchmark import no_garbage

from ..engine import Engine
from ..measure.moment import Seen
from ..model.config import EngineConfig
from ..model.model import Model
from ..optimizations import Optimizations
from ..requests.request import SamplingParams
from ..requests.workload import make_prompt
from .dashboard import TOGGLES as ALL_TOGGLES
from .dashboard import figures

TOGGLES = {name: ALL_TOGGLES[name] for name in ("sync_free", "flex_full_graph")}
"""What a decode step of Llama has to do with: no images, no states, and nothing to load."""
SLIDERS = {"batch": (1, 4, 8)}
STEPS = 2
PROMPT_TOKENS = 32
WARM_UP = 8
FOLDER = ASSETS / "timelines" / "nvidia-h200"


def recorded(on: frozenset[str], values: dict[str, int]) -> Run:
    """TraceFileError if no GPU has recorded it."""
    timeline = Timeline.load(path_of(on, values["batch"]))
    seen = Seen(STEPS, STEPS * values["batch"])
    return Run(timeline, figures(timeline, seen), f"recorded on {timeline.description}")


def path_of(on: frozenset[str], batch: int) -> Path:
    """Where the benchmark's recording is kept."""
    return FOLDER / f"engine_{name_of(on, batch)}.json"


def name_of(on: frozenset[str], batch: int) -> str:
    """`llama_3_8b_8_sync_free`"""
    what = "_".join(name for name in TOGGLES if name in on) or "none"
    return f"llama_3_8b_{batch}_{what}"


def record_all(accelerator: Accelerator, model: Model) -> Iterator[tuple[str, Timeline]]:
    """(name, recording) for every setting of the dashboard, with the weights of `model`."""
    for batch in SLIDERS["batch"]:
        of_batch = replace(EngineConfig.llama_3_8b(), capture_sizes=(batch,))
        for chosen in ((), ("sync_free",), ("flex_full_graph",), tuple(TOGGLES)):
            engine = Engine(of_batch, Optimizations.only(chosen), model=model)
            yield name_of(frozenset(chosen), batch), _record_steps(accelerator, engine, batch)


def _record_steps(accelerator: Accelerator, engine: Engine, batch: int) -> Timeline:
    room = SamplingParams(max_tokens=64)
    for number in range(batch):
        engine.add_request(
            make_prompt(engine.config.model, PROMPT_TOKENS, seed=number).tokens, room
        )
    for _ in range(WARM_UP):
        engine.step()
    accelerator.synchronize()
    with no_garbage(), debubble.record(accelerator) as timeline:
        for _ in range(STEPS):
            engine.step()
    return timeline
