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

    logits:              [B, V] float on the device, changed in place.
    bad_words_token_ids: {row: [sequence of token ids, ...]}.
    past_tokens_ids:     what each of the B rows has generated so far, on the CPU.

    A sequence forbids its last id while its row has just generated all the ids before it; one of
    a single id always does. ValueError for a row or an id that the logits don't have, or for an
    empty sequence, whether it matches now or not: then no logit has changed.
    """
    check_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    for row, sequences in bad_words_token_ids.items():
        for sequence in sequences:
            *prefix, last_id = sequence
            past = past_tokens_ids[row]
            if list(past[len(past) - len(prefix) :]) == prefix:
                logits[row, last_id] = float("-inf")
