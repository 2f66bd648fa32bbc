"""The tokens whose log-probability is wanted: the sampled one, and those that a row asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed


class ChosenTokens(NamedTuple):
    """What each row of the batch wants to know, on the device."""

    ids: torch.Tensor
    """[num_rows, 1 + most ids of a row] int32: the sampled token, those asked for, then zeros."""
    counts: torch.Tensor
    """[num_rows] int32: how many of a row's ids are meant, the sampled token included."""


def chosen_tokens(
    requested: Mapping[int, Sequence[int]], sampled: torch.Tensor, vocab_size: int
) -> ChosenTokens | None:
    """The ids of each row on the device, or None when `requested` is empty (vLLM #41429).

    `requested`: row -> ids that it asks for, in this order; a row may be missing, and a list empty.
    `sampled`: [num_rows] integers on the device, which the host doesn't know yet. ValueError for a
    row that is not in the batch, and for an id that is not in [0, vocab_size).
    """
    plan = plan_chosen_tokens(requested, len(sampled), vocab_size)
    if plan is None:
        return None
    return plan.apply(upload_packed(plan.arrays, sampled.device), sampled)


def plan_chosen_tokens(
    requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int
) -> ChosenTokensPlan | None:
    """None when nobody asks. ValueError as above."""
    if not requested:
        return None
    rows = np.fromiter(requested.keys(), np.int64, len(requested))
    lengths = np.fromiter(map(len, requested.values()), np.int64, len(requested))
    ids = np.fromiter(chain.from_iterable(requested.values()), np.int64, lengths.sum())
    row_of_id = np.repeat(rows, lengths)
    _check(rows, ids, row_of_id, num_rows, vocab_size)
    width = 1 + int(lengths.max())
    first_id = np.repeat(np.cumsum(lengths) - lengths, lengths)
    counts = np.ones(num_rows, dtype=np.int32)
    counts[rows] += lengths
    arrays = {
        "places": row_of_id * width + 1 + np.arange(len(ids)) - first_id,
        "ids": ids.astype(np.int32),
        "counts": counts,
    }
    return ChosenTokensPlan(arrays, num_rows, width)


@dataclass(frozen=True)
class ChosenTokensPlan:
    """`ids`: [num_ids] int32, all that is asked for, one row after the other; `places`: [num_ids]
    int64, where each goes in [num_rows * width]; `counts`: [num_rows] int32.

    So what travels grows with what is asked for, and not with the longest row."""

    arrays: HostArrays
    num_rows: int
    width: int

    def apply(self, on_device: DeviceArrays, sampled: torch.Tensor) -> ChosenTokens:
        device = sampled.device
        ids = torch.zeros(self.num_rows, self.width, dtype=torch.int32, device=device)
        ids.view(-1).index_copy_(0, on_device["places"], on_device["ids"])
        ids[:, 0] = sampled
        return ChosenTokens(ids, on_device["counts"])


def _check(
    rows: np.ndarray, ids: np.ndarray, row_of_id: np.ndarray, num_rows: int, vocab_size: int
) -> None:
    outside = np.flatnonzero((rows < 0) | (rows >= num_rows))
    if outside.size:
        raise ValueError(
            f"row {rows[outside[0]]} asks for log-probabilities: this batch has {num_rows} rows, "
            "counted from 0"
        )
    unknown = np.flatnonzero((ids < 0) | (ids >= vocab_size))
    if unknown.size:
        raise ValueError(
            f"row {row_of_id[unknown[0]]} asks for the log-probability of token "
            f"{ids[unknown[0]]}: ids must be in [0, {vocab_size})"
        )
