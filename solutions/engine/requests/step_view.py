"""A step as metadata builders see it: a real one, or one that stands for all that a graph runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from solutions.flex_graph import Limits
from solutions.pinned_h2d.ranges import Span

from .step_batch import StepBatch


@dataclass(frozen=True)
class StepView:
    """What metadata is made of, for a step of R requests: their numbers on the host. On the device
    the same numbers are the first R rows of the DeviceInputs."""

    query_start_loc: np.ndarray
    """[R + 1] int32: where each request's tokens start, and the number of all."""
    seq_lens: np.ndarray
    """[R] int32: tokens of each request, those of this step included."""
    positions: tuple[range, ...]
    """For each request, the positions of its tokens of this step."""
    max_seq_len: int
    """The largest of `seq_lens`, or more."""
    images: Mapping[int, list[Span]] = field(default_factory=dict)
    """First and last position of each image, by row; rows without any are left out."""
    for_capture: bool = False
    """True for a step that stands for all that a graph will run."""

    @property
    def num_rows(self) -> int:
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        return int(self.query_start_loc[-1])

    @classmethod
    def of(cls, batch: StepBatch) -> StepView:
        return cls(
            batch.query_start_loc,
            batch.seq_lens,
            batch.positions_of_rows,
            batch.max_seq_len,
            batch.images,
        )

    @classmethod
    def of_prefills(cls, num_tokens: int, num_rows: int, limits: Limits) -> StepView:
        """For a capture: tokens shared by all rows, none of which goes on from others, while one
        row may have as many as there are; and as much before them as there can be."""
        lengths = np.full(num_rows, num_tokens // num_rows, np.int32)
        lengths[: num_tokens % num_rows] += 1
        longest = range(min(num_tokens, limits.max_model_len))
        return cls(
            np.append(0, lengths.cumsum()).astype(np.int32),
            lengths,
            (longest, *(range(length) for length in lengths[1:].tolist())),
            limits.max_model_len,
            for_capture=True,
        )

    @classmethod
    def of_decodes(cls, num_rows: int, limits: Limits, tokens_of_row: int = 1) -> StepView:
        """For a capture: requests of one token, or of so many, as long as any can be."""
        longest = limits.max_model_len
        return cls(
            tokens_of_row * np.arange(num_rows + 1, dtype=np.int32),
            np.full(num_rows, longest, np.int32),
            (range(longest - tokens_of_row, longest),) * num_rows,
            longest,
            for_capture=True,
        )
