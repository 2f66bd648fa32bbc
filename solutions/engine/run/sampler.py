"""What is left to do behind a step's graph: words that are forbidden, and what else was asked
for."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import torch

from ..requests.step_batch import ScheduledRequest
from ..sampling.wishes import SECOND
from .captured_step import Sampled
from .sides import Awaited, StepSide
from .step_inputs import DeviceInputs


class SampledStep(NamedTuple):
    """What a step has sampled, on its way to the host. It has R rows, one for each
    request that samples."""

    rows: list[ScheduledRequest]
    tokens: Awaited
    """[R] int64."""
    logprob_ids: Awaited | None
    """[R, 1 + most ids of a row] int32: the token, then the ids that were asked for. None if no row
    asks."""
    logprobs: Awaited | None
    """The same shape, float32."""

    def read_tokens(self) -> list[int]:
        """The token of each row. Waits until the step is done."""
        return self.tokens.read().tolist()

    def read_logprobs(self) -> list[dict[int, float] | None]:
        """For each row the log-probabilities of its token and of the ids that it asked for, by id;
        None for a row that asked for none. Waits until the step is done."""
        if self.logprob_ids is None or self.logprobs is None:
            return [None] * len(self.rows)
        of_rows: list[dict[int, float] | None] = []
        ids, values = self.logprob_ids.read().tolist(), self.logprobs.read().tolist()
        for row, ids_of_row, values_of_row in zip(self.rows, ids, values, strict=True):
            asked = row.request.sampling.logprobs
            pairs = zip(ids_of_row, values_of_row, strict=True)
            of_rows.append(None if asked is None else dict(islice(pairs, 1 + len(asked))))
        return of_rows


class Sampler:
    """Of each row a token that its request allows."""

    def __init__(self, side: StepSide, inputs: DeviceInputs) -> None:
        self.side, self.inputs = side, inputs

    def sample(self, rows: list[ScheduledRequest], sampled: Sampled) -> SampledStep:
        """Puts tokens and log-probabilities on their way to the host. `rows` are those of the step
        that sample, in the order of `sampled`."""
        tokens = self._allowed(rows, sampled)
        asked = {
            number: row.request.sampling.logprobs
            for number, row in enumerate(rows)
            if row.request.sampling.logprobs is not None
        }
        found = self.side.gather_specific_token_logprobs(sampled.logits, asked, tokens)
        read_back = self.side.read_back
        return SampledStep(
            rows,
            read_back(tokens),
            None if found is None else read_back(found.logprob_token_ids),
            None if found is None else read_back(found.logprobs),
        )

    def _allowed(self, rows: list[ScheduledRequest], sampled: Sampled) -> torch.Tensor:
        """[rows] int64: the chosen tokens but those that a request forbids. A graph has chosen
        without a look at them; whom nothing is forbidden gets the same token again."""
        bad_words = {
            number: row.request.sampling.bad_words
            for number, row in enumerate(rows)
            if row.request.sampling.bad_words
        }
        if not bad_words:
            return sampled.tokens
        past = [row.request.generated for row in rows]
        self.side.apply_bad_words(sampled.logits, bad_words, past)
        return self.inputs.choose(sampled.logits, SECOND)
