"""A moment of serving in which all five optimisations have work."""

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
"""Tokens of each image."""
OWN_TOKENS = 7
"""Tokens of text in each prompt after its prefix, besides one more for each image."""
TOKENS_TO_SEE = 3
"""How many tokens of its answer the arriving request has when the moment is over."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The sizes of a Moment: of its batch, its images, its prefix and its model."""

    batch: int = 4
    """Requests in a step, once the last one has arrived."""
    images: int = 1
    """Images of each request."""
    prefix: int = 32
    """Tokens that the arriving request finds in host memory."""
    layers: int = 4
    engine: EngineConfig | None = None
    """The config of the moment's engine; None is the hybrid one with `layers` layers."""

    @property
    def own_tokens(self) -> int:
        """Tokens of a prompt without its prefix, images included."""
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
    """The steps and tokens that were counted during a Moment."""

    num_steps: int
    num_tokens: int
    """Tokens that all requests together generated."""


class Moment:
    """A scene of serving. All but one request decode. The last one arrives; its prefix is loaded,
    the rest of its prompt is computed, and it decodes with the rest of the batch."""

    def __init__(
        self, setting: Setting, optimizations: Optimizations, model: Model | None = None
    ) -> None:
        self.setting = setting
        self.engine = Engine(setting.config, optimizations, model=model)
        self._seed = 0
        self._arriving = arriving_prompt(setting)

    def prepare(self) -> None:
        """Makes the scene ready for `run`: the arriving request's prefix is in host memory alone,
        and all other requests decode."""
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
    """Returns the prompt of the arriving request: the prefix, which is text, then images with text
    between them."""
    images = [
        (start + setting.prefix, end + setting.prefix)
        for start, end in evenly_spread(setting.own_tokens, setting.images, PATCHES)
    ]
    num_tokens = setting.prefix + setting.own_tokens
    return make_prompt(setting.config.model, num_tokens, images, [0, 0])
