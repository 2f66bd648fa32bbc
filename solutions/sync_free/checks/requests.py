"""Checks the sampling parameters of requests: token types, bad words and log-probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers, are_indices, host_integers, is_integer
from solutions.common.shown import shown

BadWordsTokenIds = Mapping[int, Sequence[Sequence[int]]]
"""The forbidden sequences of token ids of each row of the batch, by row."""


class ChosenTokens(NamedTuple):
    """The tokens whose log-probabilities each row of the batch requests, on the device."""

    ids: torch.Tensor
    """[num_rows, 1 + most ids of a row] int32: the sampled token, the requested ids, then zeros."""
    counts: torch.Tensor
    """[num_rows] int32: how many ids each row has before its zeros, the sampled token included."""


def check_token_types(
    token_type_starts: Mapping[int, int], optimistic_seq_lens_cpu: HostIntegers, num_reqs: int
) -> np.ndarray:
    """Returns the lengths of the requests, [num_reqs] int64.

    Raises ValueError for lengths that are negative or not on the host, for more requests than
    lengths, and for a start that is no integer or belongs to a request that does not exist.
    """
    lengths = host_integers("optimistic_seq_lens_cpu", optimistic_seq_lens_cpu)
    if not 0 <= num_reqs <= len(lengths):
        raise ValueError(
            f"{num_reqs} requests, and the lengths of {len(lengths)}: num_reqs must be at least 0, "
            "and no more than there are lengths"
        )
    lengths = lengths[:num_reqs]
    negative = np.flatnonzero(lengths < 0)
    if negative.size:
        request = int(negative[0])
        raise ValueError(
            f"request {request} has a length of {lengths[request]}: lengths are at least 0"
        )
    for request, start in token_type_starts.items():
        if not is_integer(request) or not 0 <= request < num_reqs:
            raise ValueError(
                f"token types start in request {shown(request)}, and this batch has {num_reqs} "
                "requests: leave it out"
            )
        if not is_integer(start):
            raise ValueError(
                f"the token types of request {request} start at {shown(start)}: give an integer"
            )
    return lengths


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


def check_all_bad_words(bad_words_token_ids: BadWordsTokenIds, *shape: int) -> None:
    """Raises what `check_bad_words` raises. Checks all ids at once, and one by one only to name a
    wrong one: quicker for a large batch."""
    sequences = _joined(bad_words_token_ids.values())
    are_right = (
        len(shape) == 2
        and are_indices(bad_words_token_ids, shape[0])
        and are_indices(_joined(sequences), shape[1])
        and all(sequences)
    )
    if not are_right:
        check_bad_words(bad_words_token_ids, *shape)


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


def check_all_requested(
    requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int
) -> None:
    """Raises what `check_requested` raises. Checks all ids at once, and one by one only to name a
    wrong one: quicker for a large batch."""
    ids = _joined(requested.values())
    if not (are_indices(requested, num_rows) and are_indices(ids, vocab_size)):
        check_requested(requested, num_rows, vocab_size)


def _joined(lists: Collection) -> list:
    """Returns the members of all lists, or [None] if one of `lists` is no list or tuple."""
    return [*chain.from_iterable(lists)] if {*map(type, lists)} <= {list, tuple} else [None]


def _check_list(what: str, values: object) -> None:
    """Raises ValueError unless `values` is a list on the host, since the host would wait for each
    value of a tensor on the device."""
    on_host = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not on_host and not (isinstance(values, torch.Tensor) and values.is_cpu and values.dim()):
        raise ValueError(f"{what} is {shown(values)}: give a list of ids")
