"""A step as metadata builders see it: a real one, or one that stands for all that a graph runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from solutions.flex_graph.steps.limits import Limits
from solutions.pinned_h2d.ranges import Span

from .step_batch import StepBatch


@dataclass(frozen=True)
class StepView:
    """The numbers of its requests on the host; on the device they are the first rows of the
    DeviceInputs."""

    query_start_loc: np.ndarray
    """[R + 1] int32."""
    seq_lens: np.ndarray
    """[R] int32."""
    positions: tuple[range, ...]
    """Of the tokens of each request."""
    max_seq_len: int
    images: Mapping[int, list[Span]] = field(default_factory=dict)
    """Of each request that has some, by its row."""
    for_capture: bool = False

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
    def of_decodes(cls, num_rows: int, limits: Limits) -> StepView:
        """For a capture: requests of one token, as long as any can be."""
        longest = limits.max_model_len
        return cls(
            np.arange(num_rows + 1, dtype=np.int32),
            np.full(num_rows, longest, np.int32),
            (range(longest - 1, longest),) * num_rows,
            longest,
            for_capture=True,
        )
