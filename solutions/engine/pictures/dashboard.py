"""The live dashboard of chapter 06: a moment of serving, by its optimisations and its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import debubble
from debubble.accelerator import Accelerator
from debubble.sim.accelerator import SimAccelerator
from debubble.timeline import Timeline
from debubble.views.dashboard.run import Run, stop_if_unwanted
from debubble.views.dashboard.settings import Amounts
from solutions.measure.benchmark import no_garbage

from ..measure.moment import Moment, Seen, Setting
from ..model.config import EngineConfig
from ..model.model import Model
from ..optimizations import Optimizations

TOGGLES = {
    "pinned_h2d": "01 pinned_h2d: image ranges in one upload",
    "sync_free": "02 sync_free: inputs and tokens without waits",
    "gdn_precompute": "03 gdn_precompute: chunk tables from the host",
    "flex_full_graph": "04 flex_full_graph: a decode step in one graph",
    "offload_triton": "05 offload_triton: prefixes loaded by a kernel",
}
"""The label of each switch: its chapter, its name in code, and what it does."""
SLIDERS: dict[str, Sequence[int]] = {
    "batch": Amounts((2, 4, 8), "requests"),
    "images": Amounts((0, 1, 3), "a request"),
    "prefix": Amounts((0, 32, 256, 1024), "tokens"),
    "layers": Amounts((4, 8, 12), "layers"),
}

TOKENS = {"choose_kernel"}
"""Names of the kernels that sample the tokens that the host reads."""
TABLES = {"needed_pages_kernel", "packed_pages_kernel", "request_tables_kernel"}
"""Names of the kernels that make the tables which tell FlexAttention how much to read."""
BLOCKS_OF_A_REQUEST = 8
"""KV blocks of the longest request that only decodes."""


class RecordedMoment(NamedTuple):
    """A Moment that has been recorded: its engine, its timeline and its counts."""

    moment: Moment
    """The moment after it is over: its engine can go on."""
    timeline: Timeline
    seen: Seen


def run(on: frozenset[str], values: dict[str, int]) -> Run:
    """Records a moment with the optimisations `on` and the sizes `values`, and returns it with its
    figures. It runs in the process of the dashboard's worker, on the accelerator there."""
    accelerator = debubble.accelerator()
    setting = setting_of(values)
    optimizations = Optimizations.only(on)
    recorded = record_moment(
        accelerator, setting, optimizations, _model(setting.layers), stop_if_unwanted, True
    )
    timeline = recorded.timeline
    how = "" if accelerator.modelled else "measured on "
    shown = figures(timeline, recorded.seen) | counts_of(recorded)
    return Run(timeline, shown, how + timeline.description)


def setting_of(values: Mapping[str, int]) -> Setting:
    """Returns the setting of a moment for the sliders' `values`. Its engine has room for just this
    batch, since sim goes through all room whenever pages are listed, and for the largest prefix."""
    layers, batches, prefixes = values["layers"], SLIDERS["batch"], SLIDERS["prefix"]
    config = EngineConfig.hybrid(layers)
    limits = config.limits
    blocks = -(-max(prefixes) // limits.block_size)
    roomy = replace(
        limits,
        max_num_seqs=values["batch"],
        max_model_len=limits.max_model_len + max(prefixes),
        num_gpu_blocks=limits.num_gpu_blocks + blocks + BLOCKS_OF_A_REQUEST * max(batches),
    )
    engine = replace(config, limits=roomy, num_cpu_blocks=config.num_cpu_blocks + blocks)
    return Setting(**values, engine=engine)


def record_moment(
    accelerator: Accelerator,
    setting: Setting,
    optimizations: Optimizations,
    model: Model,
    between: Callable[[], None] = lambda: None,
    schedule_only: bool = False,
) -> RecordedMoment:
    """Records a moment. `between` is called between its parts, to end it early with an exception.
    `schedule_only`: the caller does not read the moment's tokens, so that sim may leave out
    arithmetic; events and times are the same."""
    sim = accelerator if isinstance(accelerator, SimAccelerator) and schedule_only else None
    with sim.schedule_only() if sim else nullcontext():
        moment = Moment(setting, optimizations, model)
    between()
    if not accelerator.modelled:
        moment.prepare()
        between()
        moment.run()  # compiles
        between()
    with sim.schedule_only(TOKENS) if sim else nullcontext():
        moment.prepare()
    between()
    with (
        no_garbage(),
        sim.schedule_only(TOKENS | TABLES) if sim else nullcontext(),
        debubble.record(accelerator) as timeline,
    ):
        seen = moment.run()
    return RecordedMoment(moment, timeline, seen)


def figures(timeline: Timeline, seen: Seen) -> dict[str, float]:
    """Returns the numbers of the dashboard's table for a recorded moment, by their names there."""
    seconds = timeline.span / 1e6
    return {
        "tokens/s": seen.num_tokens / seconds,
        "ms a step": 1e3 * seconds / seen.num_steps,
        "steps": seen.num_steps,
        "tokens": seen.num_tokens,
    }


def counts_of(recorded: RecordedMoment) -> dict[str, float]:
    """Returns the counts of the moment's engine, by their names in the dashboard's table. The
    engine's times are left out: on sim the host's clock says nothing about a GPU."""
    stats = recorded.moment.engine.stats()
    return {
        "waits a step": recorded.timeline.counts()["host_syncs"] / recorded.seen.num_steps,
        "% of prompts from a cache": 100 * stats.hit_rate,
        "preemptions": stats.preemptions,
    }


@cache
def _model(layers: int) -> Model:
    return Model(EngineConfig.hybrid(layers), debubble.accelerator().device)
