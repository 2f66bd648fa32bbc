"""The variants that are compared: none of the optimisations, each by itself, all; and engines that
have them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from debubble.accelerator import Accelerator

from ..engine import Engine
from ..model.config import EngineConfig
from ..model.model import Model
from ..optimizations import NAMES, Optimizations
from ..requests.request import SamplingParams
from ..requests.workload import Asked, alike_prompts
from .presets import ServingPreset

VARIANTS: dict[str, Optimizations] = {
    str(optimizations): optimizations
    for optimizations in (
        Optimizations.none(),
        *(Optimizations.only([name]) for name in NAMES),
        Optimizations(),
    )
}
"""The variants by name. The first one is the baseline."""

WARM_UP_TOKENS = (4, 8, 48, 136)
"""Lengths of the prompts in `warm_up`: a step gets one page of queries or several, and a short
query or a long one."""
WARM_UP_PROMPTS = (1, 3)
"""How many prompts `warm_up` serves at once."""


def variants_of(config: EngineConfig) -> tuple[str, ...]:
    """Returns the names of VARIANTS that differ for this engine. Optimisations that it makes no use
    of are left out."""
    used = {
        "pinned_h2d": config.model.num_layers_of("spans") > 0,
        "sync_free": True,
        "gdn_precompute": config.model.num_layers_of("gdn") > 0,
        "flex_full_graph": config.model.num_layers_of("flex") > 0,
        "offload_triton": config.num_cpu_blocks > 0,
    }
    return tuple(variant for variant in VARIANTS if used.get(variant, True))


def all_but(name: str) -> str:
    """Returns the name of the variant with all optimisations but `name`."""
    return f"all but {name}"


def optimizations_of(variant: str) -> Optimizations:
    if variant in VARIANTS:
        return VARIANTS[variant]
    if "+" in variant:  # as str(Optimizations) writes several
        return Optimizations.only(variant.split("+"))
    others = {all_but(name): [other for other in NAMES if other != name] for name in NAMES}
    return Optimizations.only(others[variant])


class Engines:
    """An engine for each variant, made on first use. All share weights; each has caches of its
    own."""

    def __init__(
        self,
        config: EngineConfig,
        accelerator: Accelerator,
        variants: tuple[str, ...] | None = None,
    ) -> None:
        self.config, self.accelerator = config, accelerator
        self.model = Model(config, accelerator.device)
        self.variants = variants or variants_of(config)
        self._engines: dict[str, Engine] = {}

    def __getitem__(self, variant: str) -> Engine:
        if variant not in self._engines:
            engine = Engine(self.config, optimizations_of(variant), model=self.model)
            if not self.accelerator.modelled:
                warm_up(engine)
            self._engines[variant] = engine
        return self._engines[variant]


EnginesOf = Mapping[ServingPreset, Engines]


def warm_up(engine: Engine) -> None:
    """Serves prompts of several lengths, so that the kernels of steps of any size are compiled, for
    one request and for several."""
    longest = engine.config.longest_request - 2
    seeds = itertools.count()
    for num_tokens, count in itertools.product(WARM_UP_TOKENS, WARM_UP_PROMPTS):
        prompts = alike_prompts(
            engine.config.model, count, min(num_tokens, longest), 0, [0, next(seeds)]
        )
        finish(engine, [Asked(prompt, SamplingParams(max_tokens=2)) for prompt in prompts])


def ask(engine: Engine, asked: Asked) -> str:
    """Adds a request to the engine, and returns its id."""
    return engine.add_request(asked.prompt.tokens, asked.sampling, images=asked.prompt.images)


def serve(engine: Engine, requests: Iterable[Asked]) -> None:
    """Adds the requests to an idle engine, and steps until the host has the last token; stores may
    still be in flight."""
    assert not engine.has_work, "nothing else is being served"
    for asked in requests:
        ask(engine, asked)
    while engine.has_work:
        engine.step()


def finish(engine: Engine, requests: Iterable[Asked]) -> list[list[int]]:
    """Serves the requests, and returns the tokens of each, in order. No transfer is in flight when
    it returns."""
    ids = [ask(engine, asked) for asked in requests]
    answers = {output.request_id: output.token_ids for output in engine.run()}
    return [answers[request_id] for request_id in ids]
