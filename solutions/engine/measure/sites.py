"""Lists where each of the eight sites of sync_free runs in the engine, and how often the host waits
there: `python -m solutions.engine.measure.sites`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import debubble
from debubble.accelerator import Accelerator, current
from solutions.common import read_back
from solutions.sync_free import DataParallelGroup
from solutions.sync_free.before import (
    bad_words,
    causal_conv1d,
    chosen_tokens,
    clear_rows,
    conv_metadata,
    data_parallel,
    kv_sharing,
    logprobs,
    ngram,
    penalties,
    row_moves,
    token_types,
)

from ..engine import Engine
from ..model.architecture import Architecture
from ..model.config import EngineConfig, LayerKind
from ..model.model import Model
from ..optimizations import NAMES, Optimizations
from ..requests.request import SamplingParams

PROMPT = [7, 3, 5, 7, 3, 5, 7, 3]
"""A prompt that repeats itself, so that there are drafts."""
TOKENS = 6


@dataclass(frozen=True)
class Site:
    """A site of sync_free, which is a place in a step where the host used to wait, and the options
    of an engine that runs it."""

    runs_in: str
    """The file of solutions/engine that calls the site."""
    waited_in: tuple[ModuleType, ...]
    """Modules of solutions/sync_free in which the host waits without the optimisation."""
    pattern: tuple[LayerKind, ...] = ("spans",)
    architecture: Architecture = field(default_factory=Architecture)
    num_drafts: int = 0
    wishes: Mapping[str, Any] = field(default_factory=dict)
    pools: bool = False
    has_ranks: bool = False

    @property
    def config(self) -> EngineConfig:
        tiny = EngineConfig.tiny()
        model = replace(
            tiny.model,
            num_layers=len(self.pattern),
            pattern=self.pattern,
            architecture=self.architecture,
        )
        limits = replace(tiny.limits, max_num_seqs=2)
        return replace(
            tiny,
            model=model,
            limits=limits,
            num_cpu_blocks=0,
            capture_sizes=(2,),
            num_drafts=self.num_drafts,
        )

    def meet(self, engine: Engine) -> list:
        """Serves two requests so that the engine runs the site, and returns their tokens; in a
        pooling model, their hidden states. With ranks it only steps, TOKENS times, and returns an
        empty list: ranks exchange their states, and there is nothing else to wait for."""
        if self.has_ranks:
            for _ in range(TOKENS):
                engine.step()
            return []
        return self.answers(engine)

    def answers(self, engine: Engine) -> list:
        prompts = [PROMPT, PROMPT[2:]]
        if self.pools:
            return engine.pool(prompts, {0: 3}).tolist()
        return engine.generate(prompts, SamplingParams(max_tokens=TOKENS, **self.wishes))


SITES: dict[str, Site] = {
    "bad words": Site(
        "sampling/sampler.py", (bad_words,), wishes={"bad_words": [[1], [2], [3], [4], [5]]}
    ),
    "log-probabilities": Site(
        "sampling/sampler.py", (logprobs, chosen_tokens), wishes={"logprobs": [1, 2]}
    ),
    "penalties": Site(
        "sampling/counted.py",
        (penalties, clear_rows),
        wishes={"presence_penalty": 1.0},
    ),
    "n-grams": Site("sampling/counted.py", (ngram, row_moves), num_drafts=3),
    "rows to the end": Site("runner.py", (kv_sharing,)),
    "token types": Site(
        "run/pooling.py",
        (token_types,),
        architecture=Architecture(token_types=2),
        pools=True,
    ),
    "convolution": Site("run/backends.py", (causal_conv1d, conv_metadata), pattern=("gdn",)),
    "ranks": Site("run/data_parallel.py", (data_parallel,), has_ranks=True),
}
"""The sites by name, in the words of this project; upstream's names are in solutions/sync_free."""


class SiteWaits(NamedTuple):
    """How often the host waited while an engine ran a site for two requests."""

    runs_in: str
    before: int
    """Waits in the site's files without sync_free; for ranks, all waits."""
    after: int
    """All waits with sync_free, except those for a step's tokens; for ranks, all waits."""
    same_answers: bool


def measure(
    accelerator: Accelerator, names: tuple[str, ...] = tuple(SITES)
) -> dict[str, SiteWaits]:
    """Returns the waits of each site, by its name, before and after: with all five optimisations
    but sync_free, and with all five."""
    without = Optimizations.only([name for name in NAMES if name != "sync_free"])
    found = {}
    for name in names:
        site = SITES[name]
        model = Model(site.config, accelerator.device)
        before, right = _waits(accelerator, site, without, model)
        after, answers = _waits(accelerator, site, Optimizations(), model)
        found[name] = SiteWaits(site.runs_in, before, after, answers == right)
    return found


def _waits(
    accelerator: Accelerator, site: Site, optimizations: Optimizations, model: Model
) -> tuple[int, list]:
    """Returns the number of waits as in SiteWaits, and the answers of two requests."""
    group = DataParallelGroup.alone() if site.has_ranks else None
    engine = Engine(site.config, optimizations, model=model, group=group)
    if not accelerator.modelled:
        site.answers(engine)  # compiles
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        answers = site.meet(engine)
    files = [
        event.source.file
        for event in timeline.events
        if event.kind == "sync" and event.source is not None
    ]
    if site.has_ranks:
        return len(files), site.answers(engine)
    if optimizations.sync_free:
        # Every wait counts, but for those for the tokens themselves.
        return sum(file != read_back.__file__ for file in files), answers
    waited_in = [module.__file__ for module in site.waited_in]
    return sum(file in waited_in for file in files), answers


COLUMNS: dict[str, Callable[[SiteWaits], str]] = {
    "in solutions/engine": lambda waits: waits.runs_in,
    "waits before": lambda waits: str(waits.before),
    "waits after": lambda waits: str(waits.after),
    "answers": lambda waits: "the same" if waits.same_answers else "others",
}


def table_of(found: Mapping[str, SiteWaits]) -> Table:
    table = Table(
        "site", *COLUMNS, title=f"two requests, {TOKENS} tokens each; ranks ask {TOKENS} times"
    )
    for name, waits in found.items():
        table.add_row(name, *(of(waits) for of in COLUMNS.values()))
    return table


if __name__ == "__main__":
    Console().print(table_of(measure(current())))
