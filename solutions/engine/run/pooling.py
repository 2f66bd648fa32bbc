"""Runs requests of a pooling model, whose result is a hidden state of the whole text instead of an
answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from solutions.common.host_integers import is_integer
from solutions.common.shown import shown

from ..memory.block_manager import BlockManager
from ..model.config import EngineConfig
from ..requests.new_request import new_request
from ..requests.request import Request, SamplingParams
from ..requests.slot_tables import SlotTables
from ..requests.step_batch import ScheduledRequest, StepBatch
from ..runner import EngineRunner


def pool(
    runner: EngineRunner,
    blocks: BlockManager,
    config: EngineConfig,
    requests: Sequence[Request],
    text_starts: Mapping[int, int],
) -> torch.Tensor:
    """Returns [len(requests), hidden_size] on the host: the normalised hidden state of each
    request's last token. All tokens of a request are in one step. No other requests may be served
    meanwhile, and the prefix cache keeps nothing of these. `text_starts` has, by a request's
    number, the position of its second text."""
    if not requests:
        return torch.empty(0, config.model.hidden_size, dtype=config.model.dtype)
    answers, first = [], 0
    for together in _steps(config, requests):
        starts = {
            number - first: start
            for number, start in text_starts.items()
            if first <= number < first + len(together)
        }
        for slot, request in enumerate(together):
            request.slot = slot
            request.blocks = blocks.allocate(config.limits.pages_of(len(request.prompt)))
        rows = [ScheduledRequest(request, 0, len(request.prompt), True) for request in together]
        try:
            tables = SlotTables.of(together, config.limits)
            answers.append(runner.pool(StepBatch.of(rows, tables), starts))
        finally:
            for request in together:
                blocks.release(request.blocks)
        first += len(together)
    return torch.cat([answer.read() for answer in answers])


def pooling_requests(prompts: Iterable[Sequence[int]], config: EngineConfig) -> list[Request]:
    """Returns a request for each prompt. Raises the errors of `new_request`."""
    sampling = SamplingParams(max_tokens=1)
    return [
        new_request(str(number), prompt, (), sampling, config)
        for number, prompt in enumerate(prompts)
    ]


def checked_starts(
    text_starts: Mapping[int, int] | None, requests: Sequence[Request], config: EngineConfig
) -> dict[int, int]:
    """Returns a copy of `text_starts`, the position of each prompt's second text by the prompt's
    number. Raises ValueError, naming the prompt, for a prompt that isn't there, for a start that is
    no position of it, for starts where the model has no token types, and for a prompt that one step
    can't hold."""
    most = config.limits.max_num_batched_tokens
    for number, request in enumerate(requests):
        if len(request.prompt) > most:
            raise ValueError(
                f"prompt {number} has {len(request.prompt)} tokens: a pooling step has at most "
                f"{most}"
            )
    starts = dict(text_starts or {})
    if starts and config.model.architecture.token_types < 2:
        raise ValueError("text_starts is given, and this model has no token types: leave it out")
    for number, start in starts.items():
        if not is_integer(number) or not 0 <= number < len(requests):
            raise ValueError(f"text_starts names prompt {shown(number)}: there are {len(requests)}")
        length = len(requests[number].prompt)
        if not is_integer(start) or not 0 <= start <= length:
            raise ValueError(
                f"text_starts has {shown(start)} for prompt {number}: give a position from 0 to "
                f"{length}"
            )
    return {int(number): int(start) for number, start in starts.items()}


def _steps(config: EngineConfig, requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Yields the requests in groups that fit into one step."""
    limits = config.limits
    together: list[Request] = []
    for request in requests:
        group = [*together, request]
        num_tokens = sum(len(each.prompt) for each in group)
        num_blocks = sum(limits.pages_of(len(each.prompt)) for each in group)
        fits = len(group) <= limits.max_num_seqs and num_tokens <= limits.max_num_batched_tokens
        if together and not (fits and num_blocks < limits.num_gpu_blocks):
            yield together
            group = [request]
        together = group
    yield together
