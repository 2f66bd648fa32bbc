"""The n-gram speculator's tables, planned: moves, new ids and lengths share the common upload."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays

from ..kernels.ngram import scatter_rows
from ..model.ngram_batch import NgramBatch


def plan_ngram_update(
    batch: NgramBatch,
    prev_req_id_to_row: Mapping[str, int] | None,
    new_req_ids: AbstractSet[str],
) -> NgramPlan:
    """Returns an update of the n-gram speculator's tables, checked and ready to upload. The
    arguments and errors are those of the site `update_ngram_gpu_tensors_incremental`."""
    moves, written_rows = batch.changes(prev_req_id_to_row, new_req_ids)
    req_id_to_row = batch.rows_by_req_id() or prev_req_id_to_row
    return NgramPlan(req_id_to_row, batch.arrays(moves, written_rows))


@dataclass(frozen=True, slots=True)
class NgramPlan:
    """An update of the n-gram speculator's tables: each request's row after it, and its arrays, as
    `NgramBatch.arrays` returns them."""

    req_id_to_row: Mapping[str, int] | None
    arrays: HostArrays

    def apply(
        self, on_device: DeviceArrays, token_ids: torch.Tensor, num_tokens: torch.Tensor
    ) -> None:
        """Updates the two tables in place: two kernels if rows move, one if rows are written, and a
        copy of the lengths."""
        if self.arrays["source_rows"].size:
            # Rows move first: a new request may be written to a row that moves away.
            gathered = token_ids.index_select(0, on_device["source_rows"])
            token_ids.index_copy_(0, on_device["target_rows"], gathered)
        scatter_rows(token_ids, on_device["written_rows"], on_device["starts"], on_device["ids"])
        lengths = on_device["lengths"]
        num_tokens[: len(lengths)].copy_(lengths)
