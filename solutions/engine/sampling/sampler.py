"""Finishes a step after its graph: applies bad words, gathers log-probabilities, and starts the
download."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import torch

from ..requests.step_batch import ScheduledRequest, StepBatch
from ..run.captured_step import Sampled
from ..run.sides import Awaited, StepSide
from .wishes import SECOND


class Answered(NamedTuple):
    """The tokens that one request got from a step, with their log-probabilities."""

    position: int
    """The first token's position in the request."""
    tokens: list[int]
    """One token; or, in a step with drafts, all that were accepted."""
    logprobs: list[dict[int, float] | None]
    """The log-probabilities for each token, by id: of the token itself and of the ids that were
    asked for; None if none were."""
    num_drafted: int
    """How many tokens the device drafted for the request in this step."""


class SampledStep(NamedTuple):
    """The tokens that a step has sampled, in flight to the host. It has R rows, one for each
    request that samples."""

    rows: list[ScheduledRequest]
    tokens: Awaited
    """[R] int64, or the answers [R, HEAD + T] of a step with drafts, T tokens of each request."""
    logprob_ids: Awaited | None
    """[R * T, 1 + most ids of a row] int32: the token, then the ids that were asked for. None if no
    row asks for any."""
    logprobs: Awaited | None
    """[R * T, 1 + most ids of a row] float32: the log-probabilities of `logprob_ids`. None if no
    row asks for any."""
    num_unsure: int = 0
    """How many tokens beyond the first one a request may have got: T - 1."""

    def read(self) -> list[Answered]:
        """Returns the tokens and log-probabilities of each row. Waits until the step is done."""
        found = self.tokens.read()
        logprobs = self._read_logprobs()
        if found.dim() == 1:
            return [
                Answered(row.end, [token], [of_token], 0)
                for row, token, of_token in zip(self.rows, found.tolist(), logprobs, strict=True)
            ]
        each = iter(logprobs)
        return [
            Answered(position, numbers[:count], [*islice(each, len(numbers))][:count], num_drafted)
            for position, count, num_drafted, *numbers in found.tolist()
        ]

    def _read_logprobs(self) -> list[dict[int, float] | None]:
        """Returns the log-probabilities by id for each token of each row; None if the row asks for
        none."""
        tokens_of_row = 1 + self.num_unsure
        if self.logprob_ids is None or self.logprobs is None:
            return [None] * (len(self.rows) * tokens_of_row)
        asked = [row.request.sampling.logprobs for row in self.rows for _ in range(tokens_of_row)]
        ids, values = self.logprob_ids.read().tolist(), self.logprobs.read().tolist()
        return [
            None if wanted is None else dict(islice(zip(*of_row, strict=True), 1 + len(wanted)))
            for wanted, *of_row in zip(asked, ids, values, strict=True)
        ]


class Sampler:
    """The last part of a step: replaces tokens that bad words forbid, gathers log-probabilities,
    and starts the download."""

    def __init__(self, side: StepSide) -> None:
        self.side = side
        self._gather_logprobs = side.logprobs_of_steps()

    def sample(self, batch: StepBatch, sampled: Sampled) -> SampledStep:
        """Starts the download of the step's tokens and log-probabilities, and returns it. `sampled`
        has the step's rows that sample."""
        rows, width = batch.sampling_rows, sampled.inputs.tokens_of_row
        with_extras = enumerate(rows) if batch.with_extras else ()
        asked = {
            number * width + place: row.request.sampling.logprobs
            for number, row in with_extras
            if row.request.sampling.logprobs is not None
            for place in range(width)
        }
        logits = sampled.logits
        if any(rows[number // width].request.sampling.bad_words for number in asked):
            # Log-probabilities cover forbidden words too; `_allowed` overwrites their logits.
            logits = logits.clone()
        tokens = self._allowed(rows, sampled) if batch.is_chosen_twice else sampled.tokens
        found = self._gather_logprobs(logits, asked, tokens)
        read_back = self.side.read_back
        return SampledStep(
            rows,
            read_back(sampled.inputs.answers_of(tokens)),
            None if found is None else read_back(found.logprob_token_ids),
            None if found is None else read_back(found.logprobs),
            width - 1,
        )

    def _allowed(self, rows: list[ScheduledRequest], sampled: Sampled) -> torch.Tensor:
        """Returns [rows] int64: tokens that are sampled again, since the graph samples without bad
        words, and none of which is forbidden by its request. Rows that forbid nothing get the same
        token. A request with bad words gets one token of a step."""
        width = sampled.inputs.tokens_of_row
        bad_words = {
            number * width: row.request.sampling.bad_words
            for number, row in enumerate(rows)
            if row.request.sampling.bad_words
        }
        past = [row.request.generated for row in rows for _ in range(width)]
        self.side.apply_bad_words(sampled.logits, bad_words, past)
        return sampled.inputs.choose(sampled.logits, SECOND)
