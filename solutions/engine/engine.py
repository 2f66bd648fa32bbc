"""The engine: takes requests and returns tokens, with many requests together in each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import torch

from debubble.accelerator import current
from debubble.contract.steps import named_step
from solutions.common.host_integers import is_integer
from solutions.common.shown import shown
from solutions.pinned_h2d.ranges import Span
from solutions.sync_free import DataParallelGroup

from .memory.offloader import Offloader
from .model.config import EngineConfig
from .model.model import Model
from .optimizations import Optimizations
from .recovery import Recovery
from .requests.new_request import new_request, seeds_apart
from .requests.request import Request, RequestOutput, SamplingParams
from .requests.served import ServedRequests
from .requests.stats import EngineStats
from .requests.step_batch import StepBatch
from .requests.turns import cancel_unwanted, in_turn, turn_of
from .run.data_parallel import DataParallelRanks
from .run.pooling import checked_starts, pool, pooling_requests
from .runner import EngineRunner
from .scheduler import Scheduler
from .seams import Seams
from .speculation.drafted_batch import batch_of


class Engine:
    """An inference engine: continuous batching over a paged cache, on this process's accelerator.

    `model`: the engine uses its weights, and makes caches and states of its own. `group`: the ranks
    of data parallelism, each with requests of its own; all have to call `step` equally often.
    Raises ValueError for another model's weights, TypeError for `optimizations` of another type.

    A call that raises loses no request, whether it ran out of memory or was interrupted; the next
    call goes on. Dropping an engine waits for its transfers in flight.

    Threads may share an engine: a call waits until the calls of other threads have returned, to
    this engine and to all other engines. A call from within another call, as a signal handler may
    make it, raises RuntimeError. `step` and `run` report the requests of all threads; `generate`
    returns answers to its own caller.
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
        self.optimizations = Optimizations() if optimizations is None else optimizations
        if not isinstance(self.optimizations, Optimizations):
            raise TypeError(f"optimizations is {shown(optimizations)}: give Optimizations")
        self.served = ServedRequests()
        self.unwanted: deque[Request] = deque()
        seams = Seams.of(self.optimizations)
        with turn_of(self, "Engine"):
            self.model = Model(config, current().device) if model is None else model.twin(config)
            self.offloader = None
            if config.num_cpu_blocks:
                self.offloader = Offloader(self.model, seams.loading_handler)
            self.scheduler = Scheduler(config, self.model.states, self.offloader)
            self.runner = EngineRunner(self.model, seams)
        self.recovery = Recovery(self.served, self.scheduler, self.runner)
        self.ranks = DataParallelRanks(group, seams.step.run_ar) if group else None
        self._steps_ahead = seams.step.steps_ahead

    @in_turn
    def add_request(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        images: Sequence[Span] = (),
        image_names: Mapping[int, bytes] | None = None,
        request_id: str | None = None,
    ) -> str:
        """Adds a request and returns its id, by default a number.

        `images`: the first and last position of each image's tokens in the prompt. `image_names`:
        a name of the contents of each image, by its first id, if its ids may stand for different
        images. Raises ValueError or TypeError, with nothing changed, for a request that this engine
        can't serve.
        """
        if request_id is None:
            request_id = self.served.new_id()
        if not isinstance(request_id, str):
            raise TypeError(f"request_id is {request_id!r}: give a str, or None for a number")
        if request_id in self.served.by_id:
            raise ValueError(f"request {request_id!r} is being served: choose another id")
        sampling = SamplingParams() if sampling is None else sampling
        self._serve([new_request(request_id, prompt, images, sampling, self.config, image_names)])
        return request_id

    def step(self, *, reports: bool = True) -> list[RequestOutput]:
        """Queues one step, and returns the outputs of requests that ended since the last report;
        without `reports` none, which the next call reports. The host waits for the device only to
        read tokens, or if it can queue nothing."""
        with turn_of(self, "step"):
            self._advance()
        return self.served.report() if reports else []

    def run(self) -> list[RequestOutput]:
        """Steps until all ranks and transfers are done. Returns the outputs of this rank."""
        with turn_of(self, "run"):
            self._finish()
        return self.served.report()

    def _finish(self) -> None:
        if self.ranks:
            self.ranks.expect_work()
        while self.served.is_busy or (self.ranks and self.ranks.others_have_work):
            self._advance()
        with self.recovery.change():
            self.scheduler.drain()

    def _advance(self) -> None:
        """Goes through the engine's loop once: schedules a step, queues it on the device together
        with the choice of its tokens, and hands out the tokens of earlier steps."""
        in_flight = self.served.in_flight
        measured = self.served.measured
        with named_step() as naming, self.recovery.change():
            may_wait = bool(self.served.by_id and not in_flight)
            with measured.waiting() if may_wait else nullcontext():
                step = self.scheduler.schedule(may_wait)
            tables, num_drafts = self.scheduler.tables, self.config.num_drafts
            batch = batch_of(step, tables, num_drafts) if step else None
            padded_rows = self._rows_of_all(batch)
            if naming.is_recorded and batch:
                naming.name = batch.in_words
            if batch:
                in_flight.append(self.runner.run(batch, padded_rows))
                measured.num_steps += 1
                self.scheduler.queued(step)
            steps_ahead = self._steps_ahead if step else 0
            while len(in_flight) > steps_ahead:
                for request in self.served.hand_out():
                    self.scheduler.finish(request)

    def _rows_of_all(self, batch: StepBatch | None) -> int:
        """Returns the rows to which all ranks pad a decode step; 0 if a rank is eager or alone."""
        if self.ranks is None:
            return 0
        return self.ranks.rows_of_all(batch, self.runner.capture_sizes, self.served.is_busy)

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
        self.unwanted.extend(requests)
        self._serve(requests)
        self._finish()
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
        request = new_request(self.served.new_id(), prompt, (), sampling, self.config)
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
        if self.served.is_busy:
            raise ValueError("requests are being served: let them end before you pool")
        requests = pooling_requests(prompts, self.config)
        starts = checked_starts(text_starts, requests, self.config)
        with self.recovery.change():
            self.runner.counted.reset()
            return pool(self.runner, self.scheduler.blocks, self.config, requests, starts)

    @in_turn
    def cancel(self, request_id: str) -> None:
        """Ends a request and releases its blocks; the next `step` reports its answer so far. Raises
        ValueError for a request that is not being served."""
        self.recovery.restore()
        if request_id not in self.served.by_id:
            raise ValueError(f"request {request_id!r} is not being served")
        self.cancel_request(self.served.by_id[request_id])

    def forget(self, request: Request) -> None:
        """Cancels a request whose answer is no longer read. Doesn't wait for a running call."""
        self.unwanted.append(request)
        cancel_unwanted(self)

    def cancel_request(self, request: Request) -> None:
        """Ends a request, unless it has already ended. Call it in turn."""
        self.recovery.restore()
        if self.served.by_id.get(request.request_id) is request:
            with self.recovery.change():
                self.served.end(request, "cancelled")
                self.scheduler.finish(request)

    @in_turn
    def reset_prefix_cache(self) -> None:
        """Forgets all prefixes on the device. Raises ValueError while requests are served."""
        if self.served.is_busy:
            raise ValueError("requests are being served: let them end first")
        with self.recovery.change():
            self.scheduler.forget_prefixes()

    def stats(self) -> EngineStats:
        """Returns the statistics of this engine since it was made: times to the first token and
        between tokens, hits, preemptions, and how long a step waits."""
        return self.served.measured.stats(self.scheduler.num_preemptions)

    @property
    def requests(self) -> list[Request]:
        """The requests that are being served, in order of arrival."""
        return list(self.served.by_id.values())

    def request(self, request_id: str) -> Request:
        """Returns the request with this id. Raises KeyError if it is not being served."""
        return self.served.by_id[request_id]

    @property
    def has_work(self) -> bool:
        """True while `step` or `run` has something to do or to report for this rank."""
        return self.served.is_busy or self.served.has_unreported

    def _serve(self, requests: Sequence[Request]) -> None:
        with self.recovery.change():
            self.served.add(requests)
            for request in requests:
                self.scheduler.add(request)
