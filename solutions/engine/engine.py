"""The engine: requests in, tokens out, many requests side by side in each step."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

from debubble.accelerator import current
from solutions.pinned_h2d.ranges import Span
from solutions.sync_free import DataParallelGroup

from .memory.offloader import Offloader
from .model.config import EngineConfig
from .model.model import Model
from .optimizations import Optimizations
from .requests.new_request import new_request
from .requests.request import Request, RequestOutput, SamplingParams
from .requests.step_batch import ScheduledRequest, StepBatch
from .run.data_parallel import DataParallelRanks
from .run.sampler import SampledStep
from .runner import EngineRunner
from .scheduler import Scheduler
from .seams import Seams


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
        """The id of the new request, by default a number.

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

    def step(self) -> list[RequestOutput]:
        """Queues one step, and gives back the requests that have ended. The host waits for the
        device only for tokens, and where there is nothing that it could queue."""
        self._step()
        return self._report()

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

    def _schedule(self) -> list[ScheduledRequest]:
        self._end_transfers()
        step = self.scheduler.schedule()
        if not step and not self._on_their_way:
            step = self._schedule_after_a_transfer()
        return step

    def _schedule_after_a_transfer(self) -> list[ScheduledRequest]:
        """Blocks that transfers hold are all that is missing, or a prefix that is on its way."""
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
        """Rows that the largest step of all ranks has; 0 if there are no other ranks."""
        if self.ranks is None:
            return 0
        return self.ranks.rows_of_all(batch, self.runner.capture_sizes, self._is_busy)

    def _take_first(self) -> None:
        """Gives the tokens of the first step that is on its way to their requests."""
        sampled = self._on_their_way[0]
        tokens, logprobs = sampled.read_tokens(), sampled.read_logprobs()
        self._on_their_way.popleft()
        for row, token, of_row in zip(sampled.rows, tokens, logprobs, strict=True):
            # One that has ended meanwhile was computed in vain.
            if row.request.finish_reason is None:
                reason = row.request.take(token, of_row)
                if reason:
                    self._unreported.append(self._finish(row.request, reason))

    def _finish(self, request: Request, reason: str) -> RequestOutput:
        request.finish_reason = reason
        del self._requests[request.request_id]
        self.scheduler.finish(request)
        return RequestOutput.of(request)

    def _report(self) -> list[RequestOutput]:
        ended, self._unreported = self._unreported, []
        return ended

    def run(self) -> list[RequestOutput]:
        """Steps until no rank has any work: the requests of this one that ended meanwhile."""
        if self.ranks:
            self.ranks.expect_work()
        while self._is_busy or (self.ranks and self.ranks.others_have_work):
            self._step()
        self._drain_transfers()
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

    def cancel(self, request_id: str) -> None:
        """Ends a request; its blocks come back, and the next `step` reports what it said so far.
        ValueError for one that is not being served."""
        if request_id not in self._requests:
            raise ValueError(f"request {request_id!r} is not being served")
        self._unreported.append(self._finish(self._requests[request_id], "cancelled"))

    def reset_prefix_cache(self) -> None:
        """Nothing that was computed is found on the device any more; host memory keeps what it has.
        ValueError while requests are being served."""
        if self._is_busy:
            raise ValueError("requests are being served: let them end first")
        self._drain_transfers()
        self.scheduler.blocks.forget_free()
        if self.model.states:
            self.model.states.forget()

    @property
    def requests(self) -> list[Request]:
        """The requests that are being served, in the order in which they came."""
        return list(self._requests.values())

    def request(self, request_id: str) -> Request:
        """KeyError for one that is not being served."""
        return self._requests[request_id]

    @property
    def has_work(self) -> bool:
        """True while `step` or `run` has something to do, or to report, for this rank."""
        return self._is_busy or bool(self._unreported)

    @property
    def _is_busy(self) -> bool:
        return bool(self._requests or self._on_their_way)

    def _new_id(self) -> str:
        taken = {*self._requests, *(output.request_id for output in self._unreported)}
        return next(name for name in self._names if name not in taken)

    def _serve(self, request: Request) -> None:
        self._requests[request.request_id] = request
        self.scheduler.add(request)

    def _drain_transfers(self) -> None:
        """Waits for all of them, so that what was computed is found by whoever asks next."""
        while self.offloader and self.offloader.is_busy:
            self.offloader.wait_for_one()
            self._end_transfers()
