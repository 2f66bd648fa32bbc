"""The log-probabilities of a few tokens of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from solutions.common.packed_upload import DeviceArrays, upload_packed

from ..kernels.logprobs import LogprobsTensors, check_logits, score_tokens
from .chosen_tokens import chosen_tokens, plan_chosen_tokens


def gather_specific_token_logprobs(
    logits: torch.Tensor, requested: Mapping[int, Sequence[int]], sampled: torch.Tensor
) -> LogprobsTensors | None:
    """Returns each row's log-probabilities of the sampled token and of the tokens that the row
    requests, or None if `requested` is empty (vLLM #41429).

    `logits`: [num_rows, vocab_size] on the device. `requested`: row -> token ids. `sampled`:
    [num_rows] integers on the device. Raises ValueError for a row or an id that doesn't exist.
    """
    check_logits(logits, sampled)
    chosen = chosen_tokens(requested, sampled, logits.shape[1])
    if chosen is None:
        return None
    ids, counts = chosen
    return LogprobsTensors(ids, *score_tokens(logits, ids, counts))


class LogprobsOfSteps:
    """`gather_specific_token_logprobs` for one step after another: the requested ids are uploaded
    again only if they differ from those of the step before."""

    def __init__(self) -> None:
        self._uploaded: tuple[object, DeviceArrays] = None, {}
        """The last request, and its arrays on the device."""

    def __call__(
        self, logits: torch.Tensor, requested: Mapping[int, Sequence[int]], sampled: torch.Tensor
    ) -> LogprobsTensors | None:
        check_logits(logits, sampled)
        if not requested:
            return None
        plan = plan_chosen_tokens(requested, len(sampled), logits.shape[1])
        asked = len(sampled), {row: tuple(ids) for row, ids in requested.items()}
        if self._uploaded[0] != asked:
            self._uploaded = asked, upload_packed(plan.arrays, sampled.device)
        ids, counts = plan.apply(self._uploaded[1], sampled)
        return LogprobsTensors(ids, *score_tokens(logits, ids, counts))
