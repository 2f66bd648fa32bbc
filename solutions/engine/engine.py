"""The engine: takes requests and returns tokens, with many requests together in each step."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import torch

from debubble.accelerator import current
from solutions.common.host_integers import is_integer
from solutions.common.shown import shown
from solutions.models.text.checkpoint_engine import CheckpointEngine
from solutions.pinned_h2d.ranges import Span
from solutions.sync_free import DataParallelGroup

from .memory.offloader import Offloader
from .model.config import EngineConfig
from .model.model import Model
from .optimizations import Optimizations
from .requests.new_request import new_request, seeds_apart
from .requests.request import Request, RequestOutput, SamplingParams
from .requests.step_batch import ScheduledRequest, StepBatch, are_decodes
from .requests.turns import Turn, in_turn
from .run.data_parallel import DataParallelRanks
from .run.pooling import checked_starts, pool, pooling_requests
from .runner import EngineRunner
from .sampling.sampler import Answered, SampledStep
from .scheduler import Scheduler
from .seams import Seams
from .speculation.drafted_batch import DraftedBatch


class Engine(CheckpointEngine):
    """An inference engine: continuous batching over a paged cache, on this process's accelerator.

    `model`: the engine uses its weights, and makes caches and states of its own. `group`: the ranks
    of data parallelism, each with requests of its own; all have to call `step` equally often.
    Raises ValueError for another model's weights, TypeError for `optimizations` of another type.

    A call that raises loses no request, whether it ran out of memory or was interrupted; the next
    call goes on. Dropping an engine waits for its transfers in flight.

    Threads may share an engine: a call waits until the calls of other threads have returned, to
    this engine and to all other engines. A call from within another call, as a signal handler may
    make it, raises RuntimeError. `step` and `run` report the requests of all threads; `generate`
    and `stream` return answers to their own caller.
    """

    @in_turn
    def __init__(
        self,
        config: EngineConfig,
        optimizations: Optimizations | None = None,
        *,
        model: Model | None = None,
        group: DataParallelGroup | None = None,
    ) -> None:
        self.config = config
        self.optimizations = Optimizations() if optimizations is None else optimizations
        if not isinstance(self.optimizations, Optimizations):
            raise TypeError(f"optimizations is {shown(optimizations)}: give Optimizations")
        seams = Seams.of(self.optimizations)
        device = current().device
        self.model = Model(config, device) if model is None else model.twin(config)
        self.offloader = None
        if config.num_cpu_blocks:
            self.offloader = Offloader(self.model, seams.loading_handler)
        self.scheduler = Scheduler(config, self.model.states, self.offloader)
        self.runner = EngineRunner(self.model, seams)
        self.ranks = DataParallelRanks(group, seams.step.run_ar) if group else None
        self._steps_ahead = seams.step.steps_ahead
        self._on_their_way: deque[SampledStep] = deque()
        self._requests: dict[str, Request] = {}
        self._unreported: list[Request] = []
        """Requests that have ended and are not reported by any call yet."""
        self._is_torn = False
        """True while the state is being changed, and after a change that stopped halfway."""
        self._names = map(str, itertools.count())
        """Ids for new requests. A generator would not do: an interruption inside it ends it."""
        self.num_drafted = self.num_accepted = 0
        """Numbers of tokens that speculation drafted, and of those that were accepted."""

    @in_turn
    def add_request(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        images: Sequence[Span] = (),
        request_id: str | None = None,
    ) -> str:
        """Adds a request and returns its id, by default a number.

        `images`: the first and last position of each image's tokens in the prompt. Raises
        ValueError or TypeError, with nothing changed, for a request that this engine can't serve.
        """
        if request_id is None:
            request_id = self._new_id()
        if not isinstance(request_id, str):
            raise TypeError(f"request_id is {request_id!r}: give a str, or None for a number")
        if request_id in self._requests:
            raise ValueError(f"request {request_id!r} is being served: choose another id")
        sampling = SamplingParams() if sampling is None else sampling
        names = self.images.names if "images" in vars(self) else None
        self._serve([new_request(request_id, prompt, images, sampling, self.config, names)])
        return request_id

    def step(self) -> list[RequestOutput]:
        """Queues one step, and returns the outputs of requests that ended since the last report.
        The host waits for the device only to read tokens, or if it can queue nothing."""
        self.step_quietly()
        return self._report()

    @in_turn
    def step_quietly(self) -> None:
        """Queues one step. The next `step` reports the requests that have ended."""
        self._step()

    def _step(self) -> None:
        with self._change():
            step = self._schedule()
            batch = self._batch_of(step) if step else None
            padded_rows = self._rows_of_all(batch)
            if batch:
                self._on_their_way.append(self.runner.run(batch, padded_rows))
                self.scheduler.queued(step)
        ahead = self._steps_ahead if step else 0
        while len(self._on_their_way) > ahead:
            self._take_first()

    def _batch_of(self, step: list[ScheduledRequest]) -> StepBatch:
        num_drafts = self.config.num_drafts
        if num_drafts and are_decodes(step):
            return DraftedBatch.of_decodes(step, num_drafts)
        return StepBatch.of(step)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Makes the changes in its block atomic: if they stop halfway, wherever that is, all
        requests restart from the tokens that are known."""
        self._begin_anew_if_torn()
        self._is_torn = True
        try:
            yield
        except BaseException:
            self._begin_anew_if_torn()
            raise
        self._is_torn = False

    def _begin_anew_if_torn(self) -> None:
        """Restores a consistent state after an interrupted change. A request is its prompt and the
        tokens that the host knows; everything else follows from these and is rebuilt. If this call
        is interrupted too, the next one repeats it."""
        if not self._is_torn:
            return
        current().synchronize()  # The steps in flight are unknown: wait for all.
        while self._on_their_way:
            sampled = self._on_their_way[0]
            self._take(sampled, sampled.read())
        for request in self.requests:
            if request.reason_to_end:
                self._end(request, request.reason_to_end)
        self.scheduler.begin_anew(self.requests)
        self.runner.begin_anew()
        self._is_torn = False

    def _schedule(self) -> list[ScheduledRequest]:
        self._end_transfers()
        step = self.scheduler.schedule()
        if not step and not self._on_their_way:
            step = self._schedule_after_a_transfer()
        return step

    def _schedule_after_a_transfer(self) -> list[ScheduledRequest]:
        """Waits for transfers until a step can be scheduled, and returns it: for requests that lack
        only blocks held by transfers, or a prefix in flight. Empty if no transfer is left."""
        step: list[ScheduledRequest] = []
        while not step and self.offloader and self.offloader.is_busy and self._requests:
            self.offloader.wait_for_one()
            self._end_transfers()
            step = self.scheduler.schedule()
        return step

    def _end_transfers(self) -> None:
        self.scheduler.end_stores()
        self.scheduler.end_loads()

    def _rows_of_all(self, batch: StepBatch | None) -> int:
        """Returns the rows to which all ranks pad a decode step; 0 if a rank is eager or alone."""
        if self.ranks is None:
            return 0
        return self.ranks.rows_of_all(batch, self.runner.capture_sizes, self._is_busy)

    def _take_first(self) -> None:
        """Reads the tokens of the oldest step in flight, and adds them to their requests."""
        sampled = self._on_their_way[0]
        answers = sampled.read()
        with self._change():
            for request in self._take(sampled, answers):
                self.scheduler.finish(request)

    def _take(self, sampled: SampledStep, answers: list[Answered]) -> list[Request]:
        """Adds the tokens of the oldest step in flight to their requests, and returns the requests
        that end with them. A second call, after an interruption, takes what the first one left."""
        ended = []
        for row, answer in zip(sampled.rows, answers, strict=True):
            request = row.request
            # The tokens of a request that has ended meanwhile are dropped.
            if request.finish_reason is None:
                num_taken = len(request.prompt) + len(request.generated) - answer.position
                pairs = zip(answer.tokens, answer.logprobs, strict=True)
                for token, logprobs in islice(pairs, num_taken, None):
                    if request.reason_to_end:
                        break
                    request.take(token, logprobs)
                if sampled.num_unsure and request.sampling.can_be_drafted:
                    request.settle(len(answer.tokens), sampled.num_unsure)
                    self.num_drafted += answer.num_drafted
                    self.num_accepted += len(answer.tokens) - 1
                if request.reason_to_end:
                    self._end(request, request.reason_to_end)
                    ended.append(request)
        self._on_their_way.popleft()
        return ended

    def _end(self, request: Request, reason: str) -> None:
        request.finish_reason = reason
        if request.is_reported and request not in self._unreported:
            self._unreported.append(request)
        del self._requests[request.request_id]

    def _report(self) -> list[RequestOutput]:
        with Turn.lock:
            outputs = [RequestOutput.of(request) for request in self._unreported]
            self._unreported = []
            return outputs

    def run(self) -> list[RequestOutput]:
        """Steps until all ranks and transfers are done. Returns the outputs of this rank."""
        self._run_quietly()
        return self._report()

    @in_turn
    def _run_quietly(self) -> None:
        self._run()

    def _run(self) -> None:
        if self.ranks:
            self.ranks.expect_work()
        while self._is_busy or (self.ranks and self.ranks.others_have_work):
            self._step()
        self._drain_transfers()

    @in_turn
    def generate(
        self,
        prompts: Iterable[Sequence[int]],
        sampling: SamplingParams | None = None,
        n: int = 1,
    ) -> list[list[int]]:
        """Returns the tokens that follow each prompt of text: `n` answers for each, one after the
        other, with seeds that count up if a seed is given. Serves all prompts or, with the errors
        of `add_request` or ValueError for `n` below 1, none. The next `step` reports other requests
        that ended meanwhile. A call that raises or is interrupted leaves no request of its own."""
        sampling = SamplingParams() if sampling is None else sampling
        if not is_integer(n) or n < 1:
            raise ValueError(f"n is {shown(n)}: ask for at least 1 answer")
        requests = [
            self._unreported_request(prompt, wishes)
            for prompt in prompts
            for wishes in seeds_apart(sampling, n)
        ]
        # However this call ends, its requests are not read after it.
        self._unwanted.extend(requests)
        self._serve(requests)
        self._run()
        return [request.generated for request in requests]

    @in_turn
    def serve_unreported(
        self, prompt: Sequence[int], sampling: SamplingParams, requests: list[Request]
    ) -> None:
        """Adds a request whose answer the caller reads from the Request, which is appended to
        `requests` first. `step` and `run` don't report it, and `forget` cancels it."""
        request = self._unreported_request(prompt, sampling)
        requests.append(request)
        self._serve([request])

    def _unreported_request(self, prompt: Sequence[int], sampling: SamplingParams) -> Request:
        request = new_request(self._new_id(), prompt, (), sampling, self.config)
        request.is_reported = False
        return request

    @in_turn
    def pool(
        self, prompts: Iterable[Sequence[int]], text_starts: Mapping[int, int] | None = None
    ) -> torch.Tensor:
        """Returns [prompts, hidden_size] on the host: the normalised hidden state of each prompt's
        last token, before the head. `text_starts`, for a model with token types, has the position
        of the second text by the prompt's number. Raises ValueError or TypeError while requests are
        being served, for prompts that one step can't hold, and for starts that are no positions."""
        if self._is_busy:
            raise ValueError("requests are being served: let them end before you pool")
        requests = pooling_requests(prompts, self.config)
        starts = checked_starts(text_starts, requests, self.config)
        with self._change():
            self.runner.counted.begin_anew()
            return pool(self.runner, self.scheduler.blocks, self.config, requests, starts)

    @in_turn
    def cancel(self, request_id: str) -> None:
        """Ends a request and releases its blocks; the next `step` reports its answer so far. Raises
        ValueError for a request that is not being served."""
        self._begin_anew_if_torn()
        if request_id not in self._requests:
            raise ValueError(f"request {request_id!r} is not being served")
        self.cancel_request(self._requests[request_id])

    def cancel_request(self, request: Request) -> None:
        self._begin_anew_if_torn()
        if self._requests.get(request.request_id) is request:
            with self._change():
                self._end(request, "cancelled")
                self.scheduler.finish(request)

    @in_turn
    def reset_prefix_cache(self) -> None:
        """Forgets all prefixes on the device. Raises ValueError while requests are served."""
        if self._is_busy:
            raise ValueError("requests are being served: let them end first")
        self._drain_transfers()
        with self._change():
            self.scheduler.blocks.forget_free()
            if self.model.states:
                self.model.states.forget()

    @property
    def requests(self) -> list[Request]:
        """The requests that are being served, in order of arrival."""
        return list(self._requests.values())

    def request(self, request_id: str) -> Request:
        """Returns the request with this id. Raises KeyError if it is not being served."""
        return self._requests[request_id]

    @property
    def has_work(self) -> bool:
        """True while `step` or `run` has something to do or to report for this rank."""
        return self._is_busy or bool(self._unreported)

    @property
    def _is_busy(self) -> bool:
        return bool(self._requests or self._on_their_way)

    def _new_id(self) -> str:
        taken = {*self._requests, *(request.request_id for request in self._unreported)}
        return next(name for name in self._names if name not in taken)

    def _serve(self, requests: Sequence[Request]) -> None:
        with self._change():
            self._requests |= {request.request_id: request for request in requests}
            for request in requests:
                self.scheduler.add(request)

    def _drain_transfers(self) -> None:
        """Waits for all transfers, so that later requests find every prefix that was computed."""
        while self.offloader and self.offloader.is_busy:
            self.offloader.wait_for_one()
            with self._change():
                self._end_transfers()
