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
    max_seq_len: int
    """The largest of `seq_lens`, or an upper bound of it."""
    images: Mapping[int, list[Span]] = field(default_factory=dict)
    """The first and last position of each image of a request, by the request's row; rows without
    any are left out."""
    for_capture: bool = False
    """True for a step that stands for all steps that a graph will run."""

    longest_query: int = 0
    """The most tokens of a request, if a graph may run more of them than the first one has here."""

    @property
    def positions(self) -> tuple[range, ...]:
        """The positions of each request's tokens of this step."""
        lengths = np.diff(self.query_start_loc)
        starts, ends = (self.seq_lens - lengths).tolist(), self.seq_lens.tolist()
        first = range(starts[0], max(ends[0], self.longest_query))
        return (first, *map(range, starts[1:], ends[1:]))

    @property
    def num_rows(self) -> int:
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        return int(self.query_start_loc[-1])

    @classmethod
    def of(cls, batch: StepBatch) -> StepView:
        return cls(batch.query_start_loc, batch.seq_lens, batch.max_seq_len, batch.images)

    @classmethod
    def of_prefills(cls, num_tokens: int, num_rows: int, limits: Limits) -> StepView:
        """Returns the view of a prefill step for a capture. Its tokens are spread evenly over the
        rows, and none continues a sequence. Only `positions` gives the first row as many of the
        tokens as a request may have. `max_seq_len` is the longest context that a request may
        have."""
        lengths = np.full(num_rows, num_tokens // num_rows, np.int32)
        lengths[: num_tokens % num_rows] += 1
        return cls(
            np.append(0, lengths.cumsum()).astype(np.int32),
            lengths,
            limits.max_model_len,
            for_capture=True,
            longest_query=min(num_tokens, limits.max_model_len),
        )

    @classmethod
    def of_decodes(cls, num_rows: int, limits: Limits, tokens_of_row: int = 1) -> StepView:
        """Returns the view of a decode step for a capture: requests of `tokens_of_row` tokens each,
        at the greatest length that a request may have."""
        longest = limits.max_model_len
        return cls(
            tokens_of_row * np.arange(num_rows + 1, dtype=np.int32),
            np.full(num_rows, longest, np.int32),
            longest,
            for_capture=True,
        )
