"""The sampling parameters of a step's requests as numbers, which travel with the step's upload."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..requests.request import SamplingParams


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


def numbers_of(sampling: SamplingParams) -> np.ndarray:
    """Returns a request's sampling parameters, [WIDTH] int32, in the columns of Column. POSITION
    and COUNTED_IN, which differ from step to step, are 1 if a step has to fill them in, else 0. A
    greedy request has zeros."""
    numbers = np.zeros(WIDTH, np.int32)
    if sampling.is_greedy:
        return numbers
    for column, name in FLOATS.items():
        numbers[column] = np.float32(getattr(sampling, name)).view(np.int32)
    numbers[Column.TOP_K] = sampling.top_k or 0
    seed = np.array([sampling.seed or 0], np.int64)
    numbers[[Column.SEED_LOW, Column.SEED_HIGH]] = seed.view(np.int32)
    numbers[Column.POSITION] = 1
    numbers[Column.COUNTED_IN] = sampling.has_penalties
    return numbers


def wishes_of(
    numbers: np.ndarray, positions: np.ndarray, round_: int = FIRST, with_positions: bool = False
) -> np.ndarray:
    """Returns the sampling parameters of the R rows of a step that sample, [R, WIDTH] int32, in the
    columns of Column: `numbers` [R, WIDTH], a row of `numbers_of` for each, with the `positions`
    [R] of their next tokens and the round in which these are counted. `with_positions` fills in the
    position of greedy rows too, whose tokens the device stores then."""
    wishes = numbers.copy()
    wishes[:, Column.COUNTED_IN] *= round_
    if with_positions:
        wishes[:, Column.POSITION] = positions
    else:
        wishes[:, Column.POSITION] *= positions
    return wishes
