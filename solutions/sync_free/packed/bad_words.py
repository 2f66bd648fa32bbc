"""Bad words, planned: everything that stays the same from step to step is laid out and checked
once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from solutions.common.host_integers import are_indices
from solutions.common.packed_upload import DeviceArrays, HostArrays

from ..checks.requests import BadWordsTokenIds, check_bad_words, check_past_tokens
from ..sites.bad_words import FEW


@dataclass(frozen=True, slots=True)
class BadWords:
    """The bad words of all rows of a batch, checked and laid out for `plan_bad_words`. Use it for
    as long as the batch stays the same."""

    num_rows: int
    sequences: list[Sequence[int]]
    rows: np.ndarray  # [num_sequences] int64: the row of each sequence
    lengths: np.ndarray  # [num_sequences] int64
    last_ids: np.ndarray  # [num_sequences] int64: the id that each sequence forbids
    ids_before: np.ndarray  # [num_sequences] int64: the id before the last; not used for length 1

    @classmethod
    def of(cls, bad_words_token_ids: BadWordsTokenIds, num_rows: int, vocab_size: int) -> BadWords:
        """Returns the checked bad words of a batch of `num_rows` rows. Raises ValueError for a row
        or an id that the logits don't have, and for an empty sequence."""
        of_rows = bad_words_token_ids.values()
        sequences = list(chain.from_iterable(of_rows))
        all_ids = list(chain.from_iterable(sequences))
        rows_exist = are_indices(bad_words_token_ids, num_rows)
        if not (rows_exist and are_indices(all_ids, vocab_size) and all(map(len, sequences))):
            # The slow check finds the value to name.
            check_bad_words(bad_words_token_ids, num_rows, vocab_size)
        rows = np.fromiter(bad_words_token_ids, np.int64, len(of_rows))
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        ids = np.array(all_ids, np.int64)
        ends = lengths.cumsum()
        return cls(
            num_rows,
            sequences,
            rows.repeat(np.fromiter(map(len, of_rows), np.int64, len(of_rows))),
            lengths,
            last_ids=ids[ends - 1],
            ids_before=ids[ends - 2],
        )


@dataclass(frozen=True, slots=True)
class BadWordsPlan:
    """The logits to set to -inf: (row, id) pairs in `few` if there are at most FEW, else `rows` and
    `ids` in `arrays`, which are uploaded."""

    few: Sequence[tuple[int, int]]
    arrays: HostArrays

    def apply(self, on_device: DeviceArrays, logits: torch.Tensor) -> None:
        """Sets the forbidden logits to -inf: one kernel for each of those in `few`, or one kernel
        for all. `logits`: [B, V] float on the device, of any strides."""
        for row, token_id in self.few:
            # Filling a slice passes the number as an argument of a kernel. Assigning to a single
            # element would upload the number, and the host would wait.
            logits[row, token_id : token_id + 1] = -torch.inf
        if self.arrays:
            places = (on_device["rows"], on_device["ids"])
            # A Python number would be uploaded here, and the host would wait.
            logits.index_put_(places, on_device["forbidden"].to(logits.dtype))


def plan_bad_words(words: BadWords, past_tokens_ids: Sequence[Sequence[int]]) -> BadWordsPlan:
    """Returns which logits to forbid: those of ids that would complete a bad word of their row.
    Raises ValueError if the past tokens of a row are missing or not on the host."""
    check_past_tokens(past_tokens_ids, words.num_rows)
    if not words.sequences:
        return BadWordsPlan([], {})
    completed = _completed(words, past_tokens_ids)
    rows, ids = words.rows[completed], words.last_ids[completed]
    if len(rows) <= FEW:
        return BadWordsPlan(list(zip(rows.tolist(), ids.tolist(), strict=True)), {})
    forbidden = np.array(-np.inf, np.float32)
    return BadWordsPlan([], {"rows": rows, "ids": ids, "forbidden": forbidden})


def _completed(words: BadWords, past_tokens_ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns [num_sequences] bool: True for a sequence whose ids, all but the last, are the newest
    ids of its row.

    Comparing one id rules most sequences out, so only the rest are compared as a whole.
    """
    newest = np.fromiter(
        (past[-1] if len(past) else NOTHING_YET for past in past_tokens_ids),
        np.int64,
        words.num_rows,
    )
    completed = (words.lengths == 1) | (newest[words.rows] == words.ids_before)
    for number in np.flatnonzero(completed & (words.lengths > 2)).tolist():
        *prefix, _ = words.sequences[number]
        past = past_tokens_ids[words.rows[number]]
        completed[number] = list(past[-len(prefix) :]) == prefix
    return completed


NOTHING_YET = -1
"""Placeholder for the newest id of a row that has generated no ids: no token has this id."""
