"""A step as metadata builders see it: a real step, or the largest step that a graph may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from solutions.flex_graph import Limits
from solutions.pinned_h2d.ranges import Span

from .step_batch import StepBatch


@dataclass(frozen=True)
class StepView:
    """The numbers of a step of R requests on the host, from which metadata is built. On the device
    the same numbers are the first R rows of the DeviceInputs."""

    query_start_loc: np.ndarray
    """[R + 1] int32: where each request's tokens start, then the number of all tokens."""
    seq_lens: np.ndarray
    """[R] int32: the length of each request, with its tokens of this step."""
    positions: tuple[range, ...]
    """The positions of each request's tokens of this step."""
    max_seq_len: int
    """The largest of `seq_lens`, or an upper bound of it."""
    images: Mapping[int, list[Span]] = field(default_factory=dict)
    """The first and last position of each image of a request, by the request's row; rows without
    any are left out."""
    for_capture: bool = False
    """True for a step that stands for all steps that a graph will run."""

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
        """Returns the view of a prefill step for a capture. Its tokens are spread evenly over the
        rows, and none continues a sequence. Only `positions` gives the first row as many of the
        tokens as a request may have. `max_seq_len` is the longest context that a request may
        have."""
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
        """Returns the view of a decode step for a capture: requests of `tokens_of_row` tokens each,
        at the greatest length that a request may have."""
        longest = limits.max_model_len
        return cls(
            tokens_of_row * np.arange(num_rows + 1, dtype=np.int32),
            np.full(num_rows, longest, np.int32),
            (range(longest - tokens_of_row, longest),) * num_rows,
            longest,
            for_capture=True,
        )
