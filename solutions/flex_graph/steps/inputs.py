"""What a step reads besides weights and cache: device memory that outlives it, and two uploads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from solutions.common.persistent_arrays import PersistentArrays
from solutions.common.staging_ring import StagingRing

from .batch import CommonAttentionMetadata
from .limits import Limits
from .scheduled import ScheduledBatch


class ModelInputs(NamedTuple):
    """[T] int32 each; T is at least the number of tokens of the batch."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    """-1 for a token that pads the batch: its key and value go nowhere."""


class StepInputs:
    """int32 on the device, at addresses that graphs may keep. At first, as behind every batch,
    there is nothing: no requests, and tokens that write nowhere.

    token_ids, positions, slot_mapping  [max_num_batched_tokens], 0, 0 and -1 behind the batch
    query_start_loc                     [max_num_seqs + 1], the batch's end behind it
    seq_lens                            [max_num_seqs], 0 behind the batch
    block_table                         [max_num_seqs, pages_per_seq], anything where no token is
    """

    def __init__(
        self,
        limits: Limits,
        device: torch.device,
        vocab_size: int | None = None,
        steps_in_flight: int = 2,
    ) -> None:
        """With a `vocab_size` token ids are checked too. As many steps as `steps_in_flight` may be
        queued before an upload waits for the first of them."""
        self.limits, self.vocab_size = limits, vocab_size
        tokens, seqs = limits.max_num_batched_tokens, limits.max_num_seqs
        sizes = dict.fromkeys(("token_ids", "positions", "slot_mapping"), tokens)
        sizes |= {"query_start_loc": seqs + 1, "seq_lens": seqs}
        self._arrays = arrays = PersistentArrays(sizes, device, steps_in_flight)
        self.token_ids, self.positions = arrays["token_ids"], arrays["positions"]
        self.slot_mapping = arrays["slot_mapping"].fill_(-1)
        self.query_start_loc, self.seq_lens = arrays["query_start_loc"], arrays["seq_lens"]
        table_shape = (seqs, limits.pages_per_seq)
        self.block_table = torch.zeros(table_shape, dtype=torch.int32, device=device)
        self._table_ring = StagingRing(table_shape, torch.int32, steps_in_flight)

    def upload(self, batch: ScheduledBatch) -> None:
        """Two pinned uploads, queued behind the step that may still read the last batch: nobody
        waits (vLLM #36298). The arrays may be changed at once.

        ValueError, before anything is uploaded, for a batch that `batch.check` refuses.
        """
        batch.check(self.limits, self.vocab_size)
        self._arrays.upload(
            {
                "token_ids": (batch.token_ids, 0),
                "positions": (batch.positions, 0),
                "slot_mapping": (batch.slot_mapping(self.limits.block_size), -1),
                "query_start_loc": (batch.query_start_loc, batch.num_tokens),
                "seq_lens": (batch.seq_lens, 0),
            }
        )
        rows = torch.from_numpy(self._table_rows(batch))
        self._table_ring.upload(rows, self.block_table[: len(rows)])

    def model_inputs(self, num_tokens: int) -> ModelInputs:
        """What the model reads of the first `num_tokens` tokens: views."""
        return ModelInputs(
            self.token_ids[:num_tokens],
            self.positions[:num_tokens],
            self.slot_mapping[:num_tokens],
        )

    def common(self, num_tokens: int, max_seq_len: int) -> CommonAttentionMetadata:
        """The batch with all max_num_seqs rows, for a step of `num_tokens`, padding included."""
        return CommonAttentionMetadata(
            query_start_loc=self.query_start_loc,
            seq_lens=self.seq_lens,
            block_table=self.block_table,
            num_actual_tokens=num_tokens,
            max_seq_len=max_seq_len,
        )

    def _table_rows(self, batch: ScheduledBatch) -> np.ndarray:
        """[R, pages_per_seq]."""
        num_reqs, num_columns = batch.block_table.shape
        rows = np.zeros((num_reqs, self.limits.pages_per_seq), np.int32)
        rows[:, :num_columns] = batch.block_table
        return rows
