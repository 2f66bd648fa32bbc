"""From logits to tokens: the most likely ones that are allowed, and what else was asked for."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..requests.step_batch import ScheduledRequest
from ..seams import Awaited, StepSeam
from .captured_step import Sampled
from .step_inputs import StepInputs


class SampledStep(NamedTuple):
    """On its way to the host; `.read()` of each part gives it."""

    rows: list[ScheduledRequest]
    tokens: Awaited
    """[rows] int64."""
    logprob_ids: Awaited | None
    """[rows, 1 + most ids of a row] int32: the token, then the ids that were asked for."""
    logprobs: Awaited | None
    """The same shape, float32."""


class Sampler:
    def __init__(self, seam: StepSeam, inputs: StepInputs) -> None:
        self.seam, self.inputs = seam, inputs

    def sample(self, rows: list[ScheduledRequest], sampled: Sampled) -> SampledStep:
        """`rows`: those of the step that sample, in the order of `sampled`."""
        tokens = self._allowed(rows, sampled)
        asked = {
            number: row.request.sampling.logprobs
            for number, row in enumerate(rows)
            if row.request.sampling.logprobs is not None
        }
        found = self.seam.gather_specific_token_logprobs(sampled.logits, asked, tokens)
        read_back = self.seam.read_back
        return SampledStep(
            rows,
            read_back(tokens),
            None if found is None else read_back(found.logprob_token_ids),
            None if found is None else read_back(found.logprobs),
        )

    def _allowed(self, rows: list[ScheduledRequest], sampled: Sampled) -> torch.Tensor:
        """[rows] int64. A graph has chosen without a look at bad words."""
        bad_words = {
            number: row.request.sampling.bad_words
            for number, row in enumerate(rows)
            if row.request.sampling.bad_words
        }
        if not bad_words:
            return sampled.tokens
        past = [row.request.generated for row in rows]
        self.seam.apply_bad_words(sampled.logits, bad_words, past)
        tokens = sampled.logits.argmax(-1)
        self.inputs.keep_sampled(tokens)
        return tokens
