"""The inputs of a step besides weights and cache: device memory that outlives the step, and two
uploads."""

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
    """Inputs of the model, [T] int32 each: a number for each token. T is at least the number of
    tokens of the batch."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    """The slot of the KV cache for each token's key and value; -1 for a token that pads the batch,
    whose key and value are not stored."""


class StepInputs:
    """The inputs of all steps: int32 on the device, at addresses that graphs may capture.

    token_ids, positions, slot_mapping  [max_num_batched_tokens]; 0, 0 and -1 after the batch
    query_start_loc                     [max_num_seqs + 1]; the batch's end repeated after it
    seq_lens                            [max_num_seqs]; 0 after the batch
    block_table                         [max_num_seqs, pages_per_seq]; anything where no token is

    At first they are as after a batch: no requests, and tokens whose keys are not stored.
    """

    def __init__(
        self,
        limits: Limits,
        device: torch.device,
        vocab_size: int | None = None,
        steps_in_flight: int = 2,
    ) -> None:
        """Allocates the tensors. If `vocab_size` is given, `upload` checks token ids too. Up to
        `steps_in_flight` steps may be queued before an upload waits for the first of them."""
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
        """Uploads the batch by two pinned copies, queued after the step that may still read the
        last batch: nothing waits (vLLM #36298). The batch's arrays may be changed at once.

        Raises ValueError, before any upload, for a batch that `batch.check` refuses.
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
        """Returns the model's inputs for the first `num_tokens` tokens, as views."""
        return ModelInputs(
            self.token_ids[:num_tokens],
            self.positions[:num_tokens],
            self.slot_mapping[:num_tokens],
        )

    def common(self, num_tokens: int, max_seq_len: int) -> CommonAttentionMetadata:
        """Returns the uploaded batch with all max_num_seqs rows, for a step of `num_tokens` tokens,
        padding included."""
        return CommonAttentionMetadata(
            query_start_loc=self.query_start_loc,
            seq_lens=self.seq_lens,
            block_table=self.block_table,
            num_actual_tokens=num_tokens,
            max_seq_len=max_seq_len,
        )

    def _table_rows(self, batch: ScheduledBatch) -> np.ndarray:
        """Returns the batch's block table padded to all columns, [R, pages_per_seq]."""
        num_reqs, num_columns = batch.block_table.shape
        rows = np.zeros((num_reqs, self.limits.pages_per_seq), np.int32)
        rows[:, :num_columns] = batch.block_table
        return rows
