"""The log-probabilities of a few tokens of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..kernels.logprobs import LogprobsTensors, check_logits
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
    logprobs = compute_token_logprobs(logits, ids)
    column = torch.arange(ids.shape[1], device=logits.device)
    logprobs.masked_fill_(column >= counts[:, None], float("-inf"))
    return LogprobsTensors(ids, logprobs, compute_token_ranks(logits, sampled))


def compute_token_logprobs(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Returns the log-softmax of `logits` at `token_ids`, [num_rows, K] float32, gathered from that
    of all tokens."""
    return torch.log_softmax(logits, -1, dtype=torch.float32).gather(1, token_ids.long())


def compute_token_ranks(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Returns the rank of each row's token: how many logits of the row are at least that of the
    token, [num_rows] int64."""
    return (logits >= logits.gather(1, token_ids.long()[:, None])).sum(-1)
