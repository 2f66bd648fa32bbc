"""A step with drafts on the host, which may not know how long its requests are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ..requests.slot_tables import SlotTables
from ..requests.step_batch import FROM_HOST, ScheduledRequest, StepBatch, are_decodes
from .propose import FROM_DEVICE


@dataclass(frozen=True)
class DraftedBatch(StepBatch):
    """A batch of R requests with 1 + num_drafts tokens each. The device writes ids, positions and
    slots; `seq_lens` are upper bounds."""

    is_drafted = True
    is_decode = True
    """True: a step with prompts has no drafts."""
    lengths: np.ndarray
    """[R] int32: the number of tokens of each request so far, or FROM_DEVICE."""
    ends: np.ndarray
    """[R] int32: the most tokens that each request may have after the step."""

    @classmethod
    def of_decodes(
        cls, rows: Sequence[ScheduledRequest], tables: SlotTables, num_drafts: int
    ) -> Self:
        plain = StepBatch.of(rows, tables)
        requests = [row.request for row in plain.rows]
        is_sure = np.array([not request.num_unsure for request in requests], bool)
        ends = [
            request.most_tokens if request.sampling.can_be_drafted else row.end + 1
            for row, request in zip(plain.rows, requests, strict=True)
        ]
        most = [
            min(row.end + request.num_unsure, request.most_tokens)
            for row, request in zip(plain.rows, requests, strict=True)
        ]
        num_tokens = len(requests) * (1 + num_drafts)
        return cls(
            token_ids=np.zeros(num_tokens, np.int32),
            query_lens=np.full(len(requests), 1 + num_drafts, np.int32),
            seq_lens=np.array(most, np.int32) + num_drafts,
            block_table=plain.block_table,
            rows=plain.rows,
            columns=plain.columns,
            token_sources=np.full(num_tokens, FROM_HOST, np.int32),
            slots=plain.slots,
            samples=plain.samples,
            extra_rows=plain.extra_rows,
            sampling_numbers=plain.sampling_numbers,
            next_positions=plain.next_positions,
            lengths=np.where(is_sure, plain.next_positions, FROM_DEVICE).astype(np.int32),
            ends=np.array(ends, np.int32),
        )

    @property
    def drafted_arrays(self) -> dict[str, np.ndarray]:
        return {"lengths": self.lengths, "ends": self.ends}

    @property
    def graph_size(self) -> int:
        return len(self.rows)

    def slot_mapping(self, block_size: int) -> np.ndarray:
        """Returns -1 for every token: the device writes the real slots."""
        return np.full(self.num_tokens, -1, np.int32)


def batch_of(
    step: Sequence[ScheduledRequest], tables: SlotTables, num_drafts: int = 0
) -> StepBatch:
    """Returns the step's batch, with drafts if the engine has them and the step is a decode."""
    if num_drafts and are_decodes(step):
        return DraftedBatch.of_decodes(step, tables, num_drafts)
    return StepBatch.of(step, tables)
