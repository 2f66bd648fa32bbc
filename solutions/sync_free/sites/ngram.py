"""The n-gram speculator's tables on the device, updated once a step."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import torch

from solutions.common.packed_upload import DeviceArrays, Planned, upload_and_apply

from ..kernels.ngram import check_tables, scatter_rows
from ..model.ngram_batch import NgramBatch


def update_ngram_gpu_tensors_incremental(
    batch: NgramBatch,
    token_ids: torch.Tensor,
    num_tokens: torch.Tensor,
    prev_req_id_to_row: Mapping[str, int] | None,
    new_req_ids: AbstractSet[str],
) -> Mapping[str, int] | None:
    """Brings both tables up to this step's batch, and returns the row of each request (vLLM
    #41429).

    token_ids:          [max_reqs, max_len] int32 on the device, changed in place.
    num_tokens:         [max_reqs] int32 on the device, changed in place.
    prev_req_id_to_row: the return value of the last step; None in the first one.
    new_req_ids:        requests that are new or resumed; ids outside of the batch are ignored.

    A request of the last step keeps its row's ids, which move on the device. The ids of a new or
    resumed request come from the host, as do all ids in the first step and all lengths in every
    step. Rows without a request stay as they are. An empty batch changes nothing, not even the map.

    Raises ValueError, with nothing changed, for a batch that the tables can't hold, and for a
    request that is neither in the last map nor new.
    """
    check_tables(batch, token_ids, num_tokens)
    plan = plan_ngram_update(batch, prev_req_id_to_row, new_req_ids)
    upload_and_apply(plan, token_ids.device, token_ids, num_tokens)
    return batch.rows_by_req_id() or prev_req_id_to_row


def plan_ngram_update(
    batch: NgramBatch,
    prev_req_id_to_row: Mapping[str, int] | None,
    new_req_ids: AbstractSet[str],
) -> Planned[[torch.Tensor, torch.Tensor], None]:
    """Plans the upload of the moves, of the ids from the host, and of all lengths."""
    moves, written_rows = batch.changes(prev_req_id_to_row, new_req_ids)

    def apply(on_device: DeviceArrays, token_ids: torch.Tensor, num_tokens: torch.Tensor) -> None:
        if moves:
            # Gathered rows have memory of their own: no row is overwritten before it is read.
            gathered = token_ids.index_select(0, on_device["source_rows"])
            token_ids.index_copy_(0, on_device["target_rows"], gathered)
        scatter_rows(token_ids, on_device["written_rows"], on_device["starts"], on_device["ids"])
        # Lengths need not move, since every row in use gets its own from the host.
        num_tokens[: len(on_device["lengths"])].copy_(on_device["lengths"])

    return Planned(batch.arrays(moves, written_rows), apply)
