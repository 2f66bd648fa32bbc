"""The requests that an engine serves, from their arrival until they are reported."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from time import perf_counter

from ..sampling.sampler import Answered, SampledStep
from .request import Request, RequestOutput
from .stats import RunningStats
from .turns import Turn


class ServedRequests:
    """Requests by id, the steps in flight that bring their tokens, and those that have ended."""

    def __init__(self) -> None:
        self.by_id: dict[str, Request] = {}
        self.in_flight: deque[SampledStep] = deque()
        """The steps whose tokens the host has not read, oldest first."""
        self.num_drafted = self.num_accepted = 0
        """Numbers of tokens that speculation drafted, and of those that were accepted."""
        self.measured = RunningStats()
        self._unreported: dict[str, list[Request]] = {}
        """Requests that have ended and are not reported by any call yet, by id."""
        self._names = map(str, itertools.count())
        """Ids for new requests. A generator would not do: an interruption inside it ends it."""

    @property
    def is_busy(self) -> bool:
        return bool(self.by_id or self.in_flight)

    @property
    def has_unreported(self) -> bool:
        return bool(self._unreported)

    def new_id(self) -> str:
        return next(
            name for name in self._names if name not in self.by_id and name not in self._unreported
        )

    def add(self, requests: Sequence[Request]) -> None:
        self.by_id |= {request.request_id: request for request in requests}

    def hand_out(self) -> list[Request]:
        """Reads the tokens of the oldest step in flight, adds them to their requests, and returns
        the requests that end with them. A second call, after an interruption, takes what the first
        one left."""
        sampled, ended = self.in_flight[0], []
        with self.measured.waiting():
            answers = sampled.read()
        now = perf_counter()
        for row, answer in zip(sampled.rows, answers, strict=True):
            request = row.request
            # The tokens of a request that has ended meanwhile are dropped.
            if request.finish_reason is None:
                self.measured.came(request, len(answer.tokens), now)
                reason = request.take(answer.position, answer.tokens, answer.logprobs)
                if sampled.num_unsure and request.sampling.can_be_drafted:
                    self._settle(request, answer, sampled.num_unsure)
                if reason:
                    self.end(request, reason)
                    ended.append(request)
        self.in_flight.popleft()
        return ended

    def _settle(self, request: Request, answer: Answered, num_unsure: int) -> None:
        request.settle(len(answer.tokens), num_unsure)
        self.num_drafted += answer.num_drafted
        self.num_accepted += len(answer.tokens) - 1

    def end(self, request: Request, reason: str) -> None:
        request.finish_reason = reason
        if request.is_reported:
            ended = self._unreported.setdefault(request.request_id, [])
            if request not in ended:
                ended.append(request)
        del self.by_id[request.request_id]

    def report(self) -> list[RequestOutput]:
        """Returns the outputs of requests that have ended, each once. Call it last of all: what is
        returned is reported."""
        with Turn.lock:
            outputs = [
                RequestOutput.of(request)
                for ended in self._unreported.values()
                for request in ended
            ]
            self._unreported = {}
            return outputs
