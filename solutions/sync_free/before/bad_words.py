"""The bad words as they were: each forbidden logit is an upload of its own, and a wait."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..packed.bad_words import BadWordsTokenIds, check_bad_words


def apply_bad_words(
    logits: torch.Tensor,
    bad_words_token_ids: BadWordsTokenIds,
    past_tokens_ids: Sequence[Sequence[int]],
) -> None:
    """Sets logits to -inf where sampling the id would complete a bad word."""
    check_bad_words(bad_words_token_ids, *logits.shape)
    for row, sequences in bad_words_token_ids.items():
        for sequence in sequences:
            *prefix, last_id = sequence
            past = past_tokens_ids[row]
            if list(past[len(past) - len(prefix) :]) == prefix:
                logits[row, last_id] = float("-inf")
