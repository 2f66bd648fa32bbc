"""Forbid without a wait (chapter 02, medium, 30 minutes).

A bad word is a sequence of token ids that a request must never generate. When a request has
generated all ids of the word but the last, the logit of the last id becomes minus infinity. The
function below works. But each logit that it sets is a number that it uploads, and the host waits
for each upload.

Set all these logits without a wait, and keep refusing ids that are not in the vocabulary. If you
upload anything, upload the matches, once, from memory pinned by `pin_memory=current().pin_memory`.
A mask would have a number for every logit, and no kernel may pass over all of them. A kernel for
each match is fine, because few words match in a step. If no word matches, leave the device alone.

You need to know `index_put_` and `masked_fill_`, and which of their arguments have to travel.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_bad_words.py

Stuck?         .venv/bin/debubble hint bad_words
Start afresh?  .venv/bin/debubble reset bad_words
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from katas.sync_free.given import BadWordsTokenIds, check_bad_words, check_past_tokens


# Yours to edit, from here on.
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
