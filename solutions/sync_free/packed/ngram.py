"""The n-gram speculator's tables on the device, kept up to date by one upload a step."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import torch
import triton

from debubble.accelerator import Work, launch
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed

from ..kernels.ngram_kernel import scatter_rows_kernel
from ..model.ngram_batch import NgramBatch
from .row_moves import RowMovesPlan, plan_row_moves


def update_ngram_gpu_tensors_incremental(
    batch: NgramBatch,
    token_ids: torch.Tensor,
    num_tokens: torch.Tensor,
    prev_req_id_to_row: Mapping[str, int] | None,
    new_req_ids: AbstractSet[str],
) -> Mapping[str, int] | None:
    """Brings the tables up to date, and returns where each request lies now (vLLM #41429).

    token_ids:          [max_reqs, max_len] int32 on the device, changed in place.
    num_tokens:         [max_reqs] int32 on the device, changed in place.
    prev_req_id_to_row: what the last step returned; None in the first one.
    new_req_ids:        requests that are new or resumed in this step; others may be among them.

    A request that was there takes its row along, as the device has it. The ids of a new or
    resumed one come from the host; in the first step all do. The lengths of all come from the
    host. Rows that no request has stay as they are, and an empty batch changes nothing, not even
    the map. ValueError, with nothing changed, for a batch that the tables can't hold, and for a
    request that is neither in the last map nor new.
    """
    check_tables(batch, token_ids, num_tokens)
    plan = plan_ngram_update(batch, prev_req_id_to_row, new_req_ids)
    plan.apply(upload_packed(plan.arrays, token_ids.device), token_ids, num_tokens)
    return plan.req_id_to_row


def check_tables(batch: NgramBatch, token_ids: torch.Tensor, num_tokens: torch.Tensor) -> None:
    shape = batch.token_ids_cpu.shape
    if token_ids.shape != shape or num_tokens.shape != shape[:1]:
        raise ValueError(
            f"tables of {list(token_ids.shape)} and {list(num_tokens.shape)} on the device for "
            f"{list(shape)} on the host: they must be [max_reqs, max_len] and [max_reqs]"
        )
    if {token_ids.dtype, num_tokens.dtype} != {torch.int32}:
        raise ValueError(f"tables of {token_ids.dtype} and {num_tokens.dtype}: use int32")
    if token_ids.stride(1) != 1:
        raise ValueError(f"table strides {token_ids.stride()}: each row must be contiguous")


@dataclass(frozen=True, slots=True)
class NgramPlan:
    """What moves, what is written, and where each request lies afterwards."""

    req_id_to_row: Mapping[str, int] | None
    moves: RowMovesPlan
    arrays: HostArrays

    def apply(
        self, on_device: DeviceArrays, token_ids: torch.Tensor, num_tokens: torch.Tensor
    ) -> None:
        """Two kernels if rows move, one if rows are written, and a copy of the lengths."""
        # First what moves: a new request may be written to where it lies.
        self.moves.apply(on_device, token_ids)
        scatter_rows(token_ids, on_device["written_rows"], on_device["starts"], on_device["ids"])
        # Lengths need not move along, since every row in use has its own from the host.
        lengths = on_device["lengths"]
        num_tokens[: len(lengths)].copy_(lengths)


def plan_ngram_update(
    batch: NgramBatch,
    prev_req_id_to_row: Mapping[str, int] | None,
    new_req_ids: AbstractSet[str],
) -> NgramPlan:
    """ValueError as for `update_ngram_gpu_tensors_incremental`."""
    req_id_to_row = batch.rows_by_req_id()
    rows = np.arange(len(req_id_to_row))
    if prev_req_id_to_row is None:
        is_written, last_rows = np.ones(len(rows), np.bool_), rows
    else:
        is_written = np.fromiter(map(new_req_ids.__contains__, batch.req_ids), np.bool_, len(rows))
        last_rows = np.fromiter(
            (prev_req_id_to_row.get(req_id, NOWHERE) for req_id in batch.req_ids),
            np.int64,
            len(rows),
        )
        lost = ~is_written & (last_rows == NOWHERE)
        if lost.any():
            raise ValueError(
                f"request {batch.req_ids[lost.argmax()]!r} was not there in the last step: "
                "name it among the new or resumed ones"
            )
    moves_along = ~is_written & (last_rows != rows)
    moves = plan_row_moves(last_rows[moves_along], rows[moves_along], len(batch.token_ids_cpu))
    written_rows = np.flatnonzero(is_written)
    written_lengths = batch.num_tokens_cpu[is_written]
    arrays = {
        **moves.arrays,
        "written_rows": written_rows,
        "starts": written_lengths.cumsum(dtype=np.int64) - written_lengths,
        "ids": _side_by_side(batch.token_ids_cpu, written_rows, written_lengths),
        "lengths": batch.num_tokens_cpu.astype(np.int32),
    }
    return NgramPlan(req_id_to_row or prev_req_id_to_row, moves, arrays)


NOWHERE = np.iinfo(np.int64).min
NO_IDS = np.empty(0, np.int32)


def _side_by_side(table: np.ndarray, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[sum of lengths] int32: the first ids of each of these rows."""
    wanted = zip(rows.tolist(), lengths.tolist(), strict=True)
    return np.concatenate([NO_IDS, *(table[row, :length] for row, length in wanted)])


def scatter_rows(
    table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, ids: torch.Tensor
) -> None:
    """Writes `ids` to the first columns of `table`, of which row rows[i] has those from starts[i]
    to starts[i + 1]. Each row at most once.

    table: [max_reqs, max_len] int32, its rows contiguous; rows, starts: [num_rows] int64; ids:
    [num_ids] int32; all on the device.
    """
    num_ids = len(ids)
    launch(
        scatter_rows_kernel,
        (triton.cdiv(num_ids, SCATTER_BLOCK),),
        table,
        table.stride(0),
        rows,
        starts,
        ids,
        len(rows),
        num_ids,
        (len(rows) - 1).bit_length(),
        BLOCK=SCATTER_BLOCK,
        work=lambda: Work(bytes=2 * num_ids * ids.element_size()),
    )


SCATTER_BLOCK = 1024
"""Ids that one program writes."""
