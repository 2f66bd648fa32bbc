"""The sampling parameters of a step's requests as numbers, which travel with the step's upload."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from ..requests.request import SamplingParams
from ..requests.step_batch import ScheduledRequest


class Column(IntEnum):
    """The columns of a row of sampling parameters: int32 each, floats by their bits. The kernel
    `choose_kernel` reads them by these numbers. A row of zeros is greedy."""

    TEMPERATURE = 0
    TOP_K = 1
    TOP_P = 2
    MIN_P = 3
    SEED_LOW = 4
    SEED_HIGH = 5
    POSITION = 6
    """The token's position in its request, at which it is stored. The random draw depends only on
    the position, the seed and the token's id."""
    PRESENCE = 7
    FREQUENCY = 8
    REPETITION = 9
    COUNTED_IN = 10
    """The round in which the token is counted: FIRST, SECOND, or 0 if penalties don't need it."""


WIDTH = len(Column)
FIRST, SECOND = 1, 2
"""Rounds of a step: the graph samples in the first one. A step in which a row forbids words samples
again in the second one."""
FLOATS = {
    Column.TEMPERATURE: "temperature",
    Column.TOP_P: "top_p",
    Column.MIN_P: "min_p",
    Column.PRESENCE: "presence_penalty",
    Column.FREQUENCY: "frequency_penalty",
    Column.REPETITION: "repetition_penalty",
}


def wishes_of(rows: Sequence[ScheduledRequest], with_positions: bool = False) -> np.ndarray:
    """Returns the sampling parameters of the rows that sample, [len(rows), WIDTH] int32, in the
    columns of Column. `with_positions` fills in the position of greedy rows too, whose tokens the
    device stores then."""
    wishes = np.zeros((len(rows), WIDTH), np.int32)
    # Tokens counted in the first round would be penalised in the second.
    is_chosen_twice = any(row.request.sampling.bad_words for row in rows)
    counted_in = SECOND if is_chosen_twice else FIRST
    for numbers, row in zip(wishes, rows, strict=True):
        sampling = row.request.sampling
        if with_positions:
            numbers[Column.POSITION] = row.positions.stop
        if not sampling.is_greedy:
            _write(numbers, sampling, row.positions.stop, counted_in)
    return wishes


def _write(numbers: np.ndarray, sampling: SamplingParams, position: int, counted_in: int) -> None:
    for column, name in FLOATS.items():
        numbers[column] = np.float32(getattr(sampling, name)).view(np.int32)
    seed = sampling.seed or 0
    numbers[Column.TOP_K] = sampling.top_k or 0
    numbers[[Column.SEED_LOW, Column.SEED_HIGH]] = np.array([seed], np.int64).view(np.int32)
    numbers[Column.POSITION] = position
    if sampling.has_penalties:
        numbers[Column.COUNTED_IN] = counted_in
