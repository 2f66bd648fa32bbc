"""Statistics of an engine: how long its requests waited, and what they found in caches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from .request import Request

MOST_TIMES = 4096
"""The number of latest times from which medians and percentiles are computed."""


@dataclass(frozen=True)
class EngineStats:
    """The statistics of an engine since it was made. Times are the host's, in milliseconds, of the
    last MOST_TIMES tokens; None before there are any."""

    first_token_ms: float | None
    """Median time from the arrival of a request to its first token on the host."""
    first_token_p95_ms: float | None
    between_tokens_ms: float | None
    """Median time between two tokens of a request on the host."""
    between_tokens_p95_ms: float | None
    hit_rate: float
    """The share of all prompt tokens that was found in a cache; 0 without prompts."""
    preemptions: int
    """How often a request released its blocks for an older one."""
    steps: int
    wait_ms: float
    """Mean time of a step in which the host waited for the device's tokens or transfers."""

    def __str__(self) -> str:
        first, between = _shown(self.first_token_ms), _shown(self.between_tokens_ms)
        return (
            f"first token after {first} ms (p95 {_shown(self.first_token_p95_ms)}), then {between} "
            f"ms between tokens (p95 {_shown(self.between_tokens_p95_ms)}); {self.steps} steps, "
            f"{self.wait_ms:.1f} ms of each waiting; {self.hit_rate:.0%} of the prompts from a "
            f"cache, {self.preemptions} preemptions"
        )


def _shown(milliseconds: float | None) -> str:
    return "?" if milliseconds is None else f"{milliseconds:.1f}"


class LatestTimes:
    """The last MOST_TIMES durations, in memory that does not grow."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MOST_TIMES)
        self.add = self._seconds.append

    def percentile(self, percent: float) -> float | None:
        """Returns the percentile in milliseconds, or None without any time."""
        return float(np.percentile(self._seconds, percent)) * 1e3 if self._seconds else None


class RunningStats:
    """The counts of a running engine, from which `EngineStats` are computed."""

    def __init__(self) -> None:
        self.first_token, self.between_tokens = LatestTimes(), LatestTimes()
        self.num_prompt = self.num_cached = self.num_steps = 0
        self.waited = 0.0
        """Seconds in which the host waited for the device."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time of its block as waiting."""
        started = perf_counter()
        yield
        self.waited += perf_counter() - started

    def came(self, request: Request, num_tokens: int, now: float) -> None:
        """Counts tokens that reached the host at time `now`. Call it before they are added."""
        if not request.generated:
            self.first_token.add(now - request.last_time)
            self.num_prompt += len(request.prompt)
            self.num_cached += request.num_cached
        elif num_tokens:
            self.between_tokens.add((now - request.last_time) / num_tokens)
        request.last_time = now

    def stats(self, preemptions: int) -> EngineStats:
        return EngineStats(
            first_token_ms=self.first_token.percentile(50),
            first_token_p95_ms=self.first_token.percentile(95),
            between_tokens_ms=self.between_tokens.percentile(50),
            between_tokens_p95_ms=self.between_tokens.percentile(95),
            hit_rate=self.num_cached / self.num_prompt if self.num_prompt else 0.0,
            preemptions=preemptions,
            steps=self.num_steps,
            wait_ms=self.waited * 1e3 / max(self.num_steps, 1),
        )
