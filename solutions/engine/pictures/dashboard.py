"""What chapter 06 shows live: a moment of serving, by what is switched on and how large it is."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import debubble
from debubble.accelerator import Accelerator
from debubble.timeline import Timeline
from debubble.views.dashboard.run import Run
from solutions.measure.benchmark import no_garbage

from ..measure.moment import Moment, Seen, Setting
from ..model.model import Model
from ..optimizations import Optimizations

TOGGLES = {
    "pinned_h2d": "Image ranges: one pinned upload",
    "sync_free": "Inputs and tokens: no waits",
    "gdn_precompute": "Chunk tables: planned on the host",
    "flex_full_graph": "Decode: one graph",
    "offload_triton": "Prefix loads: by a kernel",
}
SLIDERS = {
    "batch": (2, 4, 6, 8),
    "images": (0, 1, 2, 3),
    "prefix": (0, 32, 64, 96),
    "layers": (4, 8, 12),
}


class RecordedMoment(NamedTuple):
    """A moment that has been recorded."""

    moment: Moment
    """The moment as it is when it is over: its engine can go on."""
    timeline: Timeline
    seen: Seen


def run(on: frozenset[str], values: dict[str, int]) -> Run:
    """Records a moment, on the accelerator of the process in which the dashboard's worker runs."""
    accelerator = debubble.accelerator()
    setting = Setting(
        batch=values["batch"],
        images=values["images"],
        prefix=values["prefix"],
        layers=values["layers"],
    )
    optimizations = Optimizations.only(on)
    recorded = record_moment(accelerator, setting, optimizations, _model(setting.layers))
    timeline = recorded.timeline
    how = "" if accelerator.modelled else "measured on "
    return Run(timeline, figures(timeline, recorded.seen), how + timeline.description)


def record_moment(
    accelerator: Accelerator, setting: Setting, optimizations: Optimizations, model: Model
) -> RecordedMoment:
    moment = Moment(setting, optimizations, model)
    if not accelerator.modelled:
        moment.prepare()
        moment.run()  # compiles
    moment.prepare()
    with no_garbage(), debubble.record(accelerator) as timeline:
        seen = moment.run()
    return RecordedMoment(moment, timeline, seen)


def figures(timeline: Timeline, seen: Seen) -> dict[str, float]:
    """What the dashboard's table says, by name."""
    seconds = timeline.span / 1e6
    return {
        "tokens/s": seen.num_tokens / seconds,
        "ms a step": 1e3 * seconds / seen.num_steps,
        "steps": seen.num_steps,
        "tokens": seen.num_tokens,
    }


@cache
def _model(layers: int) -> Model:
    return Model(Setting(layers=layers).config, debubble.accelerator().device)
