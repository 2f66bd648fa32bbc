"""The tokens that requests ask for (chapter 02, medium, 25 minutes).

A request may ask for the logprobs of certain tokens, besides that of the sampled token. The
function below gathers the ids of these tokens, one row for each request, for a kernel to look up.
It works. But it uploads each request's ids separately, and waits each time, in the middle of
sampling.

Upload the ids of all rows at once, pinned if `current().pin_memory` is true, and without a wait.
The host does not know the sampled tokens yet: leave column 0 to the device. The kernel reads by
address, so both tensors must be contiguous.

You need to know `index_copy_` and `scatter_`, and pinned uploads.

Edit this file, then run

    pytest katas/sync_free/test_chosen_logprobs.py

Stuck?         debubble hint chosen_logprobs
Start afresh?  debubble reset chosen_logprobs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

LONGEST = 60


# Yours to edit, from here on.
def chosen_tokens(
    requested: Mapping[int, Sequence[int]], sampled: torch.Tensor, vocab_size: int
) -> ChosenTokens | None:
    """Returns the ids of each row on the device, or None if `requested` is empty (vLLM #41429).

    `requested` maps rows to the ids that they request, in order; rows may be missing, lists empty.
    `sampled` is [num_rows] integers on the device, which the host doesn't know yet. Raises
    ValueError for a row that is not in the batch, and for an id that is not in [0, vocab_size).
    """
    if not requested:
        return None
    check_requested(requested, len(sampled), vocab_size)
    device = sampled.device
    width = 1 + max(len(token_ids) for token_ids in requested.values())
    ids = torch.zeros(len(sampled), width, dtype=torch.int32, device=device)
    counts = torch.ones(len(sampled), dtype=torch.int32, device=device)
    ids[:, 0] = sampled
    for row, token_ids in requested.items():
        count = 1 + len(token_ids)
        ids[row, 1:count] = torch.tensor(token_ids, dtype=torch.int32, device=device)
        counts[row : row + 1] = count
    return ChosenTokens(ids, counts)


# region Given: what the code above uses. You may change it, and need not.


class ChosenTokens(NamedTuple):
    """The tokens whose log-probabilities each row of the batch requests, on the device."""

    ids: torch.Tensor
    """[num_rows, 1 + most ids of a row] int32: the sampled token, the requested ids, then zeros."""
    counts: torch.Tensor
    """[num_rows] int32: how many ids each row has before its zeros, the sampled token included."""


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


def check_requested(requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int) -> None:
    """Raises ValueError for a row that is not in the batch, and for an id not in the vocabulary."""
    for row, token_ids in requested.items():
        if not is_integer(row) or not 0 <= row < num_rows:
            raise ValueError(
                f"row {shown(row)} asks for log-probabilities: this batch has {num_rows} rows, "
                "counted from 0"
            )
        _check_list(f"what row {row} asks for", token_ids)
        for token_id in token_ids:
            if not is_integer(token_id) or not 0 <= token_id < vocab_size:
                raise ValueError(
                    f"row {row} asks for the log-probability of token {shown(token_id)}: ids must "
                    f"be in [0, {vocab_size})"
                )


# endregion
