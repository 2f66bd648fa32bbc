"""Engines that are quick on sim, and the answers that they should give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import debubble
from solutions.engine import (
    NAMES,
    Engine,
    EngineConfig,
    Model,
    Optimizations,
    Reference,
    RequestOutput,
    SamplingParams,
)
from solutions.engine.memory.prefix_cache import Prefix
from solutions.engine.model.config import ModelConfig
from solutions.engine.requests.workload import Asked, Prompt, make_prompt
from tests.scheduling import schedule_only

ALL, NONE = Optimizations(), Optimizations.none()
WITHOUT = {name: Optimizations(**{name: False}) for name in NAMES}


def small(
    *pattern: str,
    limits: dict[str, int] | None = None,
    model: dict[str, Any] | None = None,
    **changes: Any,
) -> EngineConfig:
    """Returns the tiny config with one layer of each kind in `pattern` (or its own layers), and
    four requests in a step. It has no host memory for offloading unless `changes` has some."""
    tiny = EngineConfig.tiny()
    shape = {"num_layers": len(pattern), "pattern": pattern} if pattern else {}
    sizes = {"max_num_seqs": 4, "max_model_len": 64} | (limits or {})
    return replace(
        tiny,
        model=replace(tiny.model, **shape | (model or {})),
        limits=replace(tiny.limits, **sizes),
        **{"num_cpu_blocks": 0} | changes,
    )


@dataclass
class Setting:
    """A model, with methods that make engines with its weights, requests for them, and the answers
    that they should give, by the slow reference."""

    model: Model
    reference: Reference

    @classmethod
    def of(cls, config: EngineConfig, accelerator) -> Setting:
        model = Model(config, accelerator.device)
        return cls(model, Reference(model))

    @property
    def config(self) -> EngineConfig:
        return self.model.config

    def engine(
        self, optimizations: Optimizations = ALL, config: EngineConfig | None = None
    ) -> Engine:
        """Returns an engine with this model's weights. `config` may have other limits than the
        model's own config. On sim the kernels of its warm-up are not computed, because nothing
        reads their results."""
        with schedule_only(debubble.accelerator()):
            return Engine(config or self.config, optimizations, model=self.model)

    def prompt(self, num_tokens: int, seed: int = 0, images: Sequence = ()) -> Prompt:
        return make_prompt(self.config.model, num_tokens, images, seed)

    def asked(self, num_tokens: int, seed: int = 0, images: Sequence = (), **sampling) -> Asked:
        return Asked(self.prompt(num_tokens, seed, images), SamplingParams(**sampling))

    def answer(self, asked: Asked) -> list[int]:
        return self.reference.generate(asked.prompt.tokens, asked.sampling, asked.prompt.images)

    def answers(self, all_asked: Iterable[Asked]) -> list[list[int]]:
        return [self.answer(asked) for asked in all_asked]


def mixed_requests(model: ModelConfig, count: int = 24, seed: int = 0) -> list[Asked]:
    """Returns `count` short and long requests, some with images. Every third continues an earlier
    prompt, and every eighth samples six tokens instead of one."""
    random = np.random.default_rng(seed)
    asked: list[Asked] = []
    for number in range(count):
        length = int(random.integers(1, 25))
        images = [(2, 2 + int(random.integers(3, 10)))] if number % 4 == 1 else []
        prompt = make_prompt(model, length + 10 * bool(images), images, [seed, number])
        if number % 3 == 2:
            before = asked[int(random.integers(number))].prompt
            more = make_prompt(model, int(random.integers(1, 8)), seed=[seed, number, 1])
            prompt = Prompt(before.tokens + more.tokens, before.images)
        asked.append(Asked(prompt, SamplingParams(max_tokens=6 if number % 8 == 7 else 1)))
    return asked


def add(engine: Engine, asked: Asked) -> str:
    return engine.add_request(asked.prompt.tokens, asked.sampling, images=asked.prompt.images)


def serve(engine: Engine, all_asked: Iterable[Asked]) -> list[RequestOutput]:
    """Serves all requests, and returns their outputs in the order of the requests."""
    ids = [add(engine, asked) for asked in all_asked]
    outputs = {output.request_id: output for output in engine.run()}
    return [outputs[request_id] for request_id in ids]


def tokens_of(outputs: Iterable[RequestOutput]) -> list[list[int]]:
    return [output.token_ids for output in outputs]


def prefixes_used(engine: Engine) -> list[Prefix]:
    """Returns a list to which the engine's scheduler, from now on, adds the cached prefix with
    which each request begins."""
    used: list[Prefix] = []
    begin = engine.scheduler._begin

    def noted(request, prefix):
        used.append(prefix)
        return begin(request, prefix)

    engine.scheduler._begin = noted
    return used
