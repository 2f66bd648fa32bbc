"""Bad words: an id that would complete a forbidden sequence is never sampled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..checks.requests import BadWordsTokenIds, check_bad_words, check_past_tokens


def apply_bad_words(
    logits: torch.Tensor,
    bad_words_token_ids: BadWordsTokenIds,
    past_tokens_ids: Sequence[Sequence[int]],
) -> None:
    """Sets logits to -inf where sampling the id would complete a bad word (vLLM #41429).

    logits:              [B, V] on the device, of any floating dtype, changed in place.
    bad_words_token_ids: {row: [sequence of token ids, ...]}.
    past_tokens_ids:     the ids that each of the B rows has generated so far, on the CPU.

    A sequence forbids its last id if its row has just generated all the ids before that. A sequence
    of a single id always forbids it. Raises ValueError, with no logit changed, for a row or an id
    that the logits don't have and for an empty sequence, even if the sequence doesn't match now.
    """
    check_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    for row, sequences in bad_words_token_ids.items():
        for sequence in sequences:
            *prefix, last_id = sequence
            past = past_tokens_ids[row]
            if list(past[len(past) - len(prefix) :]) == prefix:
                logits[row, last_id] = float("-inf")
