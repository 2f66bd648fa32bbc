"""What a step's requests wish of their tokens, as numbers that travel with the step's upload."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from ..requests.request import SamplingParams
from ..requests.step_batch import ScheduledRequest


class Column(IntEnum):
    """A row of wishes: int32 each, floats by their bits. The kernel `choose_kernel` reads them by
    these numbers. A row of zeros is greedy."""

    TEMPERATURE = 0
    TOP_K = 1
    TOP_P = 2
    MIN_P = 3
    SEED_LOW = 4
    SEED_HIGH = 5
    POSITION = 6
    """Of the token in its request. Chance rests on this, the seed and the token's id alone."""
    PRESENCE = 7
    FREQUENCY = 8
    REPETITION = 9
    COUNTED_IN = 10
    """In which round the token is counted and kept: FIRST, SECOND, or 0 where nobody needs that."""


WIDTH = len(Column)
FIRST, SECOND = 1, 2
"""Rounds: what a graph chooses, and what is chosen again where some words are forbidden."""
FLOATS = {
    Column.TEMPERATURE: "temperature",
    Column.TOP_P: "top_p",
    Column.MIN_P: "min_p",
    Column.PRESENCE: "presence_penalty",
    Column.FREQUENCY: "frequency_penalty",
    Column.REPETITION: "repetition_penalty",
}


def wishes_of(rows: Sequence[ScheduledRequest]) -> np.ndarray:
    """[len(rows), WIDTH] int32, of the rows that sample."""
    wishes = np.zeros((len(rows), WIDTH), np.int32)
    for numbers, row in zip(wishes, rows, strict=True):
        sampling = row.request.sampling
        if not sampling.is_greedy:
            _write(numbers, sampling, row.positions.stop)
    return wishes


def _write(numbers: np.ndarray, sampling: SamplingParams, position: int) -> None:
    for column, name in FLOATS.items():
        numbers[column] = np.float32(getattr(sampling, name)).view(np.int32)
    seed = sampling.seed or 0
    numbers[Column.TOP_K] = sampling.top_k or 0
    numbers[[Column.SEED_LOW, Column.SEED_HIGH]] = np.array([seed], np.int64).view(np.int32)
    numbers[Column.POSITION] = position
    if sampling.has_penalties:
        numbers[Column.COUNTED_IN] = SECOND if sampling.bad_words else FIRST
