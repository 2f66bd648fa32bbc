"""A moment of serving in which all five optimisations have something to do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from debubble.accelerator import current

from ..engine import Engine
from ..model.config import EngineConfig
from ..model.model import Model
from ..optimizations import Optimizations
from ..requests.request import SamplingParams
from ..requests.workload import Prompt, evenly_spread, make_prompt

PATCHES = 8
"""Tokens of an image."""
OWN_TOKENS = 7
"""Text of the request that arrives, behind its prefix, and beside its images."""
TOKENS_TO_SEE = 3
"""How many tokens that request has when the moment is over."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How large a moment is."""

    batch: int = 4
    """Requests in a step, once one more has arrived."""
    images: int = 1
    """Images of each request."""
    prefix: int = 32
    """Tokens that the arriving request finds in host memory."""
    layers: int = 4
    engine: EngineConfig | None = None
    """The engine whose moment it is; None: the hybrid one with so many layers."""

    @property
    def own_tokens(self) -> int:
        """Tokens of a prompt, without a prefix."""
        return OWN_TOKENS + self.images * (PATCHES + 1)

    @property
    def config(self) -> EngineConfig:
        return replace(
            self.engine or EngineConfig.hybrid(self.layers),
            max_images=max(1, self.images),
            capture_sizes=(max(1, self.batch - 1), self.batch),
        )


@dataclass(frozen=True)
class Seen:
    """What happened in a moment."""

    num_steps: int
    num_tokens: int
    """Tokens that all requests got."""


class Moment:
    """All but one request decode. That one arrives; its prefix is loaded, the rest of its prompt is
    computed, and it decodes with the others."""

    def __init__(
        self, setting: Setting, optimizations: Optimizations, model: Model | None = None
    ) -> None:
        self.setting = setting
        self.engine = Engine(setting.config, optimizations, model=model)
        self._seed = 0
        self._arriving = arriving_prompt(setting)

    def prepare(self) -> None:
        """The prefix is in host memory and nowhere else, and the others decode."""
        self._finish_all()
        prefix = self._arriving.tokens[: self.setting.prefix + 1]
        self.engine.add_request(prefix, SamplingParams(max_tokens=1))
        self.engine.run()
        self.engine.reset_prefix_cache()
        own_tokens = self.setting.own_tokens
        for _ in range(self.setting.batch - 1):
            self._seed += 1
            model = self.setting.config.model
            images = evenly_spread(own_tokens, self.setting.images, PATCHES)
            prompt = make_prompt(model, own_tokens, images, self._seed)
            room = self.setting.config.limits.max_model_len - own_tokens
            self.engine.add_request(
                prompt.tokens, SamplingParams(max_tokens=room), images=prompt.images
            )
        while any(not request.generated for request in self.engine.requests):
            self.engine.step()
        self.engine.step()
        current().synchronize()

    def run(self) -> Seen:
        before = self._num_generated()
        name = self.engine.add_request(
            self._arriving.tokens,
            SamplingParams(max_tokens=self.setting.config.limits.block_size),
            images=self._arriving.images,
        )
        steps = 0
        while len(self.engine.request(name).generated) < TOKENS_TO_SEE:
            self.engine.step()
            steps += 1
        return Seen(steps, self._num_generated() - before)

    def _num_generated(self) -> int:
        return sum(len(request.generated) for request in self.engine.requests)

    def _finish_all(self) -> None:
        for request in self.engine.requests:
            self.engine.cancel(request.request_id)
        self.engine.run()


def arriving_prompt(setting: Setting) -> Prompt:
    """Text in front, which is the prefix, and the images behind it."""
    images = [
        (start + setting.prefix, end + setting.prefix)
        for start, end in evenly_spread(setting.own_tokens, setting.images, PATCHES)
    ]
    num_tokens = setting.prefix + setting.own_tokens
    return make_prompt(setting.config.model, num_tokens, images, [0, 0])
