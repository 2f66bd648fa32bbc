"""The tables as they were kept: every part of the update is an upload, and a wait."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import torch

from ..model.ngram_batch import NgramBatch
from ..parts.before.row_moves import move_rows


def update_ngram_gpu_tensors_incremental(
    batch: NgramBatch,
    token_ids: torch.Tensor,
    num_tokens: torch.Tensor,
    prev_req_id_to_row: Mapping[str, int] | None,
    new_req_ids: AbstractSet[str],
) -> Mapping[str, int] | None:
    """Brings the tables up to date, and returns where each request lies now."""
    req_id_to_row = batch.rows_by_req_id()
    if not req_id_to_row:
        return prev_req_id_to_row
    if prev_req_id_to_row is None:
        moves, written = [], req_id_to_row
    else:
        kept = {name: row for name, row in req_id_to_row.items() if name not in new_req_ids}
        written = {name: row for name, row in req_id_to_row.items() if name in new_req_ids}
        moves = [(prev_req_id_to_row[name], row) for name, row in kept.items()]
        moves = [(source, target) for source, target in moves if source != target]
    move_rows((token_ids, num_tokens), moves)
    for row in written.values():
        length = batch.num_tokens_cpu[row]
        token_ids[row, :length] = torch.from_numpy(batch.token_ids_cpu[row, :length])
    rows = torch.tensor(list(req_id_to_row.values()), device=token_ids.device)
    lengths = torch.tensor(batch.num_tokens_cpu, dtype=torch.int32, device=token_ids.device)
    num_tokens.index_copy_(0, rows, lengths)
    return req_id_to_row
