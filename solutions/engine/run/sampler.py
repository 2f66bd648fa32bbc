"""What is left to do behind a step's graph: words that are forbidden, and what else was asked
for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import torch

from ..requests.step_batch import ScheduledRequest
from ..sampling.wishes import SECOND
from .captured_step import Sampled
from .sides import Awaited, StepSide
from .step_inputs import DeviceInputs


class Answered(NamedTuple):
    """What a step says of one request."""

    position: int
    """Of the first token, in the request."""
    tokens: list[int]
    """One; or, of a step with drafts, as many as hold."""
    logprobs: list[dict[int, float] | None]
    """Of each of them, the log-probabilities of the token and of the ids that were asked for, by
    id; None if none were."""
    num_drafted: int
    """Tokens that the device has drafted."""


class SampledStep(NamedTuple):
    """What a step has sampled, on its way to the host. It has R rows, one for each
    request that samples."""

    rows: list[ScheduledRequest]
    tokens: Awaited
    """[R] int64, or the answers [R, HEAD + T] of a step with drafts, T tokens of each request."""
    logprob_ids: Awaited | None
    """[R * T, 1 + most ids of a row] int32: the token, then the ids that were asked for. None if no
    row asks."""
    logprobs: Awaited | None
    """The same shape, float32."""
    num_unsure: int = 0
    """How many more tokens than one a request may have got: T - 1."""

    def read(self) -> list[Answered]:
        """What each row gets. Waits until the step is done."""
        found = self.tokens.read()
        if found.dim() == 1:
            answers = [
                (row.positions.stop, 1, 0, token)
                for row, token in zip(self.rows, found.tolist(), strict=True)
            ]
        else:
            answers = found.tolist()
        logprobs = self._read_logprobs()
        return [
            Answered(
                position,
                numbers[:count],
                list(islice(logprobs, len(numbers)))[:count],
                num_drafted,
            )
            for position, count, num_drafted, *numbers in answers
        ]

    def _read_logprobs(self) -> Iterator[dict[int, float] | None]:
        """Of each token of each row."""
        tokens_of_row = 1 + self.num_unsure
        asked = [row.request.sampling.logprobs for row in self.rows for _ in range(tokens_of_row)]
        if self.logprob_ids is None or self.logprobs is None:
            yield from [None] * len(asked)
            return
        ids, values = self.logprob_ids.read().tolist(), self.logprobs.read().tolist()
        for wanted, ids_of_row, values_of_row in zip(asked, ids, values, strict=True):
            pairs = zip(ids_of_row, values_of_row, strict=True)
            yield None if wanted is None else dict(islice(pairs, 1 + len(wanted)))


class Sampler:
    """Of each row a token that its request allows."""

    def __init__(self, side: StepSide, inputs: DeviceInputs) -> None:
        self.side, self.inputs = side, inputs

    def sample(self, rows: list[ScheduledRequest], sampled: Sampled) -> SampledStep:
        """Puts tokens and log-probabilities on their way to the host. `rows` are those of the step
        that sample, in the order of `sampled`."""
        width = self.inputs.tokens_of_row
        asked = {
            number * width + place: row.request.sampling.logprobs
            for number, row in enumerate(rows)
            if row.request.sampling.logprobs is not None
            for place in range(width)
        }
        logits = sampled.logits
        if any(rows[number // width].request.sampling.bad_words for number in asked):
            # Log-probabilities are of all words; `_allowed` overwrites the forbidden ones.
            logits = logits.clone()
        tokens = self._allowed(rows, sampled)
        found = self.side.gather_specific_token_logprobs(logits, asked, tokens)
        read_back = self.side.read_back
        return SampledStep(
            rows,
            read_back(self.inputs.answers_of(tokens)),
            None if found is None else read_back(found.logprob_token_ids),
            None if found is None else read_back(found.logprobs),
            width - 1,
        )

    def _allowed(self, rows: list[ScheduledRequest], sampled: Sampled) -> torch.Tensor:
        """[rows] int64: the chosen tokens but those that a request forbids. A graph has chosen
        without a look at them; whom nothing is forbidden gets the same token again. Who forbids
        something gets one token of a step."""
        width = self.inputs.tokens_of_row
        bad_words = {
            number * width: row.request.sampling.bad_words
            for number, row in enumerate(rows)
            if row.request.sampling.bad_words
        }
        if not bad_words:
            return sampled.tokens
        past = [row.request.generated for row in rows for _ in range(width)]
        self.side.apply_bad_words(sampled.logits, bad_words, past)
        return self.inputs.choose(sampled.logits, SECOND)
