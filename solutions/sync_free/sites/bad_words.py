"""Bad words: an id that would complete a forbidden sequence is never sampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, Planned, upload_and_apply

from ..checks.requests import BadWordsTokenIds, check_all_bad_words, check_past_tokens

FEW = 4
"""The most logits that are filled one by one: this costs less than an upload and a scatter."""


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
    plan = plan_bad_words(bad_words_token_ids, past_tokens_ids, *logits.shape)
    upload_and_apply(plan, logits.device, logits)


def plan_bad_words(
    bad_words_token_ids: BadWordsTokenIds, past_tokens_ids: Sequence[Sequence[int]], *shape: int
) -> Planned[[torch.Tensor], None]:
    """Plans which logits of this `shape` are set. Their places are uploaded if they are not few."""
    check_all_bad_words(bad_words_token_ids, *shape)
    check_past_tokens(past_tokens_ids, shape[0])
    forbidden = []
    for row, sequences in bad_words_token_ids.items():
        for sequence in sequences:
            *prefix, last_id = sequence
            past = past_tokens_ids[row]
            if list(past[len(past) - len(prefix) :]) == prefix:
                forbidden.append((row, last_id))
    are_few = len(forbidden) <= FEW
    value = np.array(float("-inf"), np.float32)

    def apply(on_device: DeviceArrays, logits: torch.Tensor) -> None:
        if not are_few:
            places = on_device["places"].unbind()
            logits.index_put_(places, on_device["value"].to(logits.dtype))
            return
        for row, last_id in forbidden:
            # A slice is filled: the number is an argument of the kernel, and is not uploaded.
            logits[row, last_id : last_id + 1] = float("-inf")

    return Planned({} if are_few else {"places": np.array(forbidden).T, "value": value}, apply)
