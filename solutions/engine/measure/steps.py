"""Steps of an engine that are ready to be measured: decodes, and prefills."""

from __future__ import annotations

import itertools
from collections import deque

from solutions.measure.benchmark import Step

from ..engine import Engine
from ..requests.request import Request, SamplingParams
from ..requests.workload import Asked, alike_prompts
from .presets import ServingPreset
from .variants import ask

SEEDS = itertools.count()


class Steps:
    """A base class for steps of one kind that are measured on one engine. A step computes `tokens`
    tokens."""

    tokens: int

    def __init__(self, engine: Engine, preset: ServingPreset) -> None:
        self.engine, self.preset = engine, preset

    def ready(self, num_steps: int = 2) -> Step:
        """Prepares the engine so that `step` can be called `num_steps` times from now on. Returns
        `step`."""
        raise NotImplementedError

    def step(self) -> None:
        raise NotImplementedError

    def row(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.step()

    def stop(self) -> None:
        """Cancels all running requests, and leaves the engine with nothing to do."""
        self._cancel()
        self.engine.run()

    def _requests(self, num_tokens: int, max_tokens: int) -> list[Asked]:
        """Returns as many requests as a step has room for, with prompts of `num_tokens` tokens.
        None begins like an earlier one."""
        preset = self.preset
        prompts = alike_prompts(
            preset.config.model, preset.batch, num_tokens, preset.image_tokens, [1, next(SEEDS)]
        )
        return [Asked(prompt, SamplingParams(max_tokens=max_tokens)) for prompt in prompts]

    def _ask(self, requests: list[Asked]) -> None:
        for asked in requests:
            ask(self.engine, asked)

    def _cancel(self) -> None:
        for request in list(self._running):
            self.engine.cancel(request.request_id)

    @property
    def _running(self) -> list[Request]:
        return self.engine.scheduler.running


class Decodes(Steps):
    """Decode steps, each of which computes a token of each request. Requests that get too long are
    replaced by new ones."""

    def __init__(self, engine: Engine, preset: ServingPreset) -> None:
        super().__init__(engine, preset)
        self.tokens = preset.batch

    def ready(self, num_steps: int = 2) -> Step:
        if self._steps_left() < num_steps:
            self._restart()
        return self.step

    def step(self) -> None:
        assert self._steps_left() > 0, "there is a token to decode for every request"
        self.engine.step()

    def _steps_left(self) -> int:
        """Returns how many more steps the running requests can decode; 0 unless all of them
        decode."""
        if len(self._running) < self.preset.batch:
            return 0
        return min(
            request.sampling.max_tokens - request.num_sampled if request.num_sampled else 0
            for request in self._running
        )

    def _restart(self) -> None:
        self.stop()
        num_tokens = self.preset.cached_tokens
        max_tokens = self.preset.limits.max_model_len - num_tokens
        self._ask(self._requests(num_tokens, max_tokens))
        while not self._steps_left():
            self.engine.step()


class Prefills(Steps):
    """Prefill steps, each of which replaces all requests by new ones. In a model with states, a
    step ends with the last full block of each prompt."""

    def __init__(self, engine: Engine, preset: ServingPreset) -> None:
        super().__init__(engine, preset)
        self._made: deque[list[Asked]] = deque()

    def ready(self, num_steps: int = 2) -> Step:
        while len(self._made) < num_steps:
            self._made.append(self._requests(self.preset.prefill_tokens, max_tokens=2))
        return self.step

    def step(self) -> None:
        self._cancel()
        self._ask(self._made.popleft())
        self.engine.step()
        assert len(self._running) == self.preset.batch, "all prompts are in one step"
        assert not any(request.num_cached for request in self._running), "they are all new"
        self.tokens = sum(request.num_computed for request in self._running)


KINDS: dict[str, type[Steps]] = {"decode": Decodes, "prefill": Prefills}
