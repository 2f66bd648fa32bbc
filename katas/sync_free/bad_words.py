"""Forbid without a wait (chapter 02, medium, 30 minutes).

A bad word is a sequence of token ids that a request must never generate. When a request has
generated all ids of the word but the last, the logit of the last id becomes minus infinity. The
function below works. But each logit that it sets is a number that it uploads, and the host waits
for each upload.

Set all these logits without a wait, and keep refusing ids that are not in the vocabulary. If you
upload anything, upload the matches, once, from memory pinned by `pin_memory=current().pin_memory`.
A mask would have a number for every logit, and no kernel may pass over all of them. If no word
matches, leave the device alone.

You need to know `index_put_` and `masked_fill_`, and which of their arguments have to travel.

Edit this file, then run

    pytest katas/sync_free/test_bad_words.py

Stuck?         debubble hint bad_words
Start afresh?  debubble reset bad_words
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

BadWordsTokenIds = Mapping[int, Sequence[Sequence[int]]]
LONGEST = 60


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


# region Given: what the code above uses. You may change it, and need not.


def is_integer(value: object) -> bool:
    """Returns True for integers of Python and numpy, but not for True and False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        return "an int of more than 60 digits"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def shown(value: object) -> str:
    """Returns a number, a flag or a word itself, and a description of any other value, since
    printing a tensor reads it from the device."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _short(value)
    if isinstance(value, torch.Tensor):
        return f"a {value.dtype} tensor {list(value.shape)} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    if isinstance(value, np.generic | torch.dtype | torch.device | range):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _check_list(what: str, values: object) -> None:
    """Raises ValueError unless `values` is a list on the host, since the host would wait for each
    value of a tensor on the device."""
    on_host = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not on_host and not (isinstance(values, torch.Tensor) and values.is_cpu and values.dim()):
        raise ValueError(f"{what} is {shown(values)}: give a list of ids")


def check_bad_words(bad_words_token_ids: BadWordsTokenIds, *shape: int) -> None:
    """Raises ValueError with the first row, sequence or id that can't be right for logits of this
    `shape`, which is (rows, ids of the vocabulary)."""
    if len(shape) != 2:
        raise ValueError(f"logits of shape {list(shape)}: make them [rows, vocabulary]")
    num_rows, vocab_size = shape
    for row, sequences in bad_words_token_ids.items():
        if not is_integer(row) or not 0 <= row < num_rows:
            raise ValueError(f"bad words for row {shown(row)}: the logits have {num_rows} rows")
        _check_list(f"the bad words of row {row}", sequences)
        for sequence in sequences:
            _check_list(f"a bad word of row {row}", sequence)
            if not len(sequence):
                raise ValueError(f"an empty bad word for row {row}: it needs at least one id")
            for token_id in sequence:
                if not is_integer(token_id) or not 0 <= token_id < vocab_size:
                    raise ValueError(
                        f"token id {shown(token_id)} in a bad word for row {row}: "
                        f"the vocabulary has {vocab_size} ids"
                    )


def check_past_tokens(past_tokens_ids: Sequence[Sequence[int]], num_rows: int) -> None:
    """Raises ValueError unless every row of the logits has a list of its generated ids, on the
    host."""
    if len(past_tokens_ids) != num_rows:
        raise ValueError(
            f"past tokens of {len(past_tokens_ids)} rows for logits of {num_rows}: "
            "give every row a list, be it empty"
        )
    for row, past in enumerate(past_tokens_ids):
        if not isinstance(past, torch.Tensor):
            _check_list(f"the past tokens of row {row}", past)
        elif past.device.type != "cpu":
            raise ValueError(
                f"the past tokens of row {row} are on {past.device}, where to read them is to "
                "wait: give them on the host"
            )


# endregion
