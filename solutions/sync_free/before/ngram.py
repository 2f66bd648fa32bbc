"""The n-gram speculator's tables on the device, updated once a step."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import torch

from ..kernels.ngram import check_tables
from ..model.ngram_batch import NgramBatch
from .row_moves import move_rows


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
    req_id_to_row = batch.rows_by_req_id()
    moves, written_rows = batch.changes(prev_req_id_to_row, new_req_ids)
    if not req_id_to_row:
        return prev_req_id_to_row
    move_rows((token_ids, num_tokens), moves)
    for row in written_rows:
        length = batch.num_tokens_cpu[row]
        token_ids[row, :length] = torch.from_numpy(batch.token_ids_cpu[row, :length])
    rows = torch.tensor(list(req_id_to_row.values()), device=token_ids.device)
    lengths = torch.tensor(batch.num_tokens_cpu, dtype=torch.int32, device=token_ids.device)
    num_tokens.index_copy_(0, rows, lengths)
    return req_id_to_row
