"""Scatters the ids of many rows, sent side by side, to their places in a table.

Rows differ in length. So a program doesn't take a row or a part of one, but a block of the ids that
were sent, and all programs have equal work. Each id finds its row by bisection.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..model.ngram_batch import NgramBatch

SCATTER_BLOCK = 1024
"""Number of ids that one program writes."""


@triton.jit(
    # One compiled kernel serves all of these values, which differ from step to step.
    do_not_specialize=["num_written", "num_ids", "bisections"],
    do_not_specialize_on_alignment=["written_rows", "starts", "ids"],
)
def scatter_rows_kernel(
    table,  # [max_reqs, max_len] int32, rows contiguous
    table_stride,
    written_rows,  # [num_written] int64
    starts,  # [num_written] int64: where the ids of each of these rows begin in `ids`
    ids,  # [num_ids] int32
    num_written,
    num_ids,
    bisections,  # steps of bisection that tell num_written rows apart
    BLOCK: tl.constexpr,
):
    """Writes BLOCK of the ids to their places in `table`. They may belong to several rows."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # Always starts[low] <= place < starts[high], so that a row without ids is never chosen.
    low = tl.full([BLOCK], 0, tl.int32)
    high = low + num_written
    for _ in range(bisections):
        middle = (low + high) // 2
        starts_later = tl.load(starts + middle) > place
        high = tl.where(starts_later, middle, high)
        low = tl.where(starts_later, low, middle)
    exists = place < num_ids
    row = tl.load(written_rows + low)
    target = table + row * table_stride + (place - tl.load(starts + low))
    tl.store(target, tl.load(ids + place, mask=exists), mask=exists)


def scatter_rows(
    table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, ids: torch.Tensor
) -> None:
    """Writes `ids` to the first columns of `table`. Row rows[i] gets the ids from starts[i] to
    starts[i + 1]; each row occurs at most once.

    `table`: [max_reqs, max_len] int32, its rows contiguous. `rows`, `starts`: [num_rows] int64.
    `ids`: [num_ids] int32. All are on the device.
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


def check_tables(batch: NgramBatch, token_ids: torch.Tensor, num_tokens: torch.Tensor) -> None:
    """Raises ValueError unless `token_ids` is int32 [max_reqs, max_len] with contiguous rows, and
    `num_tokens` int32 [max_reqs], on one device and of the sizes that `batch` has on the host."""
    shape = batch.token_ids_cpu.shape
    if token_ids.shape != shape or num_tokens.shape != shape[:1]:
        raise ValueError(
            f"tables of {list(token_ids.shape)} and {list(num_tokens.shape)} on the device for "
            f"{list(shape)} on the host: they must be [max_reqs, max_len] and [max_reqs]"
        )
    if {token_ids.dtype, num_tokens.dtype} != {torch.int32}:
        raise ValueError(f"tables of {token_ids.dtype} and {num_tokens.dtype}: use int32")
    if token_ids.device.type == "cpu" or num_tokens.device != token_ids.device:
        raise ValueError(
            f"tables on {token_ids.device} and {num_tokens.device}: both must be on the accelerator"
        )
    if token_ids.stride(1) != 1 or 0 in (token_ids.stride(0), num_tokens.stride(0)):
        raise ValueError(
            f"token_ids has strides {token_ids.stride()}, and num_tokens {num_tokens.stride()}: "
            "each row must be contiguous, and memory of its own"
        )
