"""The log-probabilities of a few tokens of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..kernels.logprobs import LogprobsTensors, check_logits, score_tokens
from .chosen_tokens import chosen_tokens


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
