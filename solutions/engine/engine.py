"""The engine: requests in, tokens out."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

from debubble.accelerator import current
from solutions.pinned_h2d.ranges import Span
from solutions.sync_free.model.data_parallel_group import DataParallelGroup

from .memory.offloader import Offloader
from .model.config import EngineConfig
from .model.model import Model
from .optimizations import Optimizations
from .requests.request import Request, RequestOutput, SamplingParams, new_request
from .requests.step_batch import ScheduledRequest, StepBatch
from .run.data_parallel import Ranks
from .run.sampler import SampledStep
from .runner import ModelRunner
from .scheduler import Scheduler
from .seams import seams_of


class Engine:
    """Continuous batching over a paged cache, on the accelerator of this process.

    `model`: its weights are used; its caches and states are not. `group`: the ranks that step side
    by side, each with requests of its own; all of them have to call `step` equally often.
    ValueError for the weights of another model.

    A call that raises where it asks something of the device, as for want of memory, or where it
    waits, loses nothing: the next one goes on. Whoever drops an engine waits for the transfers that
    are under way.
    """

    def __init__(
        self,
        config: EngineConfig,
        optimizations: Optimizations | None = None,
        *,
        model: Model | None = None,
        group: DataParallelGroup | None = None,
    ) -> None:
        self.config = config
        self.optimizations = optimizations or Optimizations()
        seams = seams_of(self.optimizations)
        device = current().device
        self.model = Model(config, device) if model is None else model.twin(config)
        self.offloader = None
        if config.num_cpu_blocks:
            self.offloader = Offloader(self.model, seams.loading_handler)
        self.scheduler = Scheduler(config, self.model.states, self.offloader)
        self.runner = ModelRunner(self.model, seams)
        self.ranks = Ranks(group, seams.step.run_ar) if group else None
        self._steps_ahead = seams.step.steps_ahead
        self._on_their_way: deque[SampledStep] = deque()
        self._requests: dict[str, Request] = {}
        self._unreported: list[RequestOutput] = []
        self._names = (str(number) for number in itertools.count())

    def add_request(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        images: Sequence[Span] = (),
        request_id: str | None = None,
    ) -> str:
        """Its id, by default a number.

        `images`: first and last position of each one's tokens in the prompt. ValueError or
        TypeError, with nothing changed, for what this engine can't serve.
        """
        if request_id is None:
            request_id = self._new_id()
        if request_id in self._requests:
            raise ValueError(f"request {request_id!r} is being served: choose another id")
        sampling = sampling or SamplingParams()
        self._serve(new_request(request_id, prompt, images, sampling, self.config))
        return request_id

    def cancel(self, request_id: str) -> None:
        """Ends a request; its blocks come back, and the next `step` reports what it said so far.
        ValueError for one that is not being served."""
        if request_id not in self._requests:
            raise ValueError(f"request {request_id!r} is not being served")
        self._unreported.append(self._finish(self._requests[request_id], "cancelled"))

    @property
    def requests(self) -> list[Request]:
        """Those that are being served, in the order in which they came."""
        return list(self._requests.values())

    def request(self, request_id: str) -> Request:
        """KeyError for one that is not being served."""
        return self._requests[request_id]

    @property
    def has_work(self) -> bool:
        """Of this rank: `step` or `run` has something to do, or to report."""
        return self._is_busy or bool(self._unreported)

    def step(self) -> list[RequestOutput]:
        """Queues one step, and gives back the requests that have ended. The host waits for the
        device only for tokens, and where there is nothing that it could queue."""
        self._step()
        return self._report()

    def generate(
        self,
        prompts: Iterable[Sequence[int]],
        sampling: SamplingParams | None = None,
    ) -> list[list[int]]:
        """The tokens that follow each prompt, of text alone. It serves all or, with the errors of
        `add_request`, none. What became of other requests meanwhile, the next `step` reports."""
        sampling = sampling or SamplingParams()
        requests = [
            new_request(self._new_id(), prompt, (), sampling, self.config) for prompt in prompts
        ]
        for request in requests:
            self._serve(request)
        ids = [request.request_id for request in requests]
        outputs = self.run()
        self._unreported += [output for output in outputs if output.request_id not in ids]
        answers = {output.request_id: output.token_ids for output in outputs}
        return [answers[request_id] for request_id in ids]

    def run(self) -> list[RequestOutput]:
        """Steps until no rank has any work: the requests of this one that ended meanwhile."""
        if self.ranks:
            self.ranks.expect_work()
        while self._is_busy or (self.ranks and self.ranks.others_have_work):
            self._step()
        self._drain_stores()
        return self._report()

    def reset_prefix_cache(self) -> None:
        """Nothing that was computed is found on the device any more; host memory keeps what it has.
        ValueError while requests are being served."""
        if self._is_busy:
            raise ValueError("requests are being served: let them end first")
        self._drain_stores()
        self.scheduler.blocks.forget_free()
        if self.model.states:
            self.model.states.forget()

    @property
    def _is_busy(self) -> bool:
        return bool(self._requests or self._on_their_way)

    def _new_id(self) -> str:
        taken = {*self._requests, *(output.request_id for output in self._unreported)}
        return next(name for name in self._names if name not in taken)

    def _serve(self, request: Request) -> None:
        self._requests[request.request_id] = request
        self.scheduler.add(request)

    def _step(self) -> None:
        step = self._schedule()
        try:
            batch = StepBatch.of(step) if step else None
            padded_rows = self._rows_of_all(batch)
            sampled = self.runner.run(batch, padded_rows) if batch else None
        except BaseException:
            self.scheduler.give_up(step)
            raise
        if sampled is not None:
            self._on_their_way.append(sampled)
            self.scheduler.queued(step)
        ahead = self._steps_ahead if step else 0
        while len(self._on_their_way) > ahead:
            self._take_first()

    def _report(self) -> list[RequestOutput]:
        ended, self._unreported = self._unreported, []
        return ended

    def _schedule(self) -> list[ScheduledRequest]:
        self._end_transfers()
        step = self.scheduler.schedule()
        if not step and not self._on_their_way:
            step = self._schedule_after_a_transfer()
        return step

    def _rows_of_all(self, batch: StepBatch | None) -> int:
        """How many rows the other ranks run, if there are any."""
        if self.ranks is None:
            return 0
        return self.ranks.rows_of_all(batch, self.runner.capture_sizes, self._is_busy)

    def _end_transfers(self) -> None:
        self.scheduler.end_stores()
        self.scheduler.end_loads()

    def _schedule_after_a_transfer(self) -> list[ScheduledRequest]:
        """Blocks that transfers hold are all that is missing, or a prefix that is on its way."""
        step: list[ScheduledRequest] = []
        while not step and self.offloader and self.offloader.is_busy and self._requests:
            self.offloader.wait_for_one()
            self._end_transfers()
            step = self.scheduler.schedule()
        return step

    def _take_first(self) -> None:
        """Gives the tokens of the first step that is on its way to their requests."""
        sampled = self._on_their_way[0]
        tokens = sampled.tokens.read().tolist()
        logprobs = _logprobs_by_row(sampled)
        self._on_their_way.popleft()
        for number, (row, token) in enumerate(zip(sampled.rows, tokens, strict=True)):
            request = row.request
            if request.finish_reason is not None:
                continue
            request.generated.append(token)
            request.update_hashes()
            if request.sampling.logprobs is not None:
                request.logprobs.append(logprobs[number])
            reason = _reason_to_end(request, token)
            if reason:
                self._unreported.append(self._finish(request, reason))

    def _finish(self, request: Request, reason: str) -> RequestOutput:
        request.finish_reason = reason
        del self._requests[request.request_id]
        self.scheduler.finish(request)
        return RequestOutput.of(request)

    def _drain_stores(self) -> None:
        """So that what was computed is found by whoever asks next."""
        while self.offloader and self.offloader.is_busy:
            self.offloader.wait_for_one()
            self._end_transfers()


def _reason_to_end(request: Request, token: int) -> str | None:
    if token == request.sampling.stop_token:
        return "stop"
    if len(request.generated) >= request.sampling.max_tokens:
        return "length"
    return None


def _logprobs_by_row(sampled: SampledStep) -> list[dict[int, float]]:
    """By id, of the token and of the ids that a row asked for."""
    if sampled.logprob_ids is None or sampled.logprobs is None:
        return []
    ids, values = sampled.logprob_ids.read().tolist(), sampled.logprobs.read().tolist()
    widths = [1 + len(row.request.sampling.logprobs or ()) for row in sampled.rows]
    return [
        dict(zip(ids_of_row[:width], values_of_row, strict=False))
        for ids_of_row, values_of_row, width in zip(ids, values, widths, strict=True)
    ]
