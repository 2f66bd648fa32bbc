"""The scatter kernel: ids of many rows, sent one behind the other, each to its place.

Rows are as long as they are, so a program takes neither a row nor a part of one, but a block of
the ids that were sent: all programs have the same to do. Each id finds its row by bisection.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # These differ from step to step, and it is the same compiled kernel.
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
    bisections,  # as many as it takes to tell num_written rows apart
    BLOCK: tl.constexpr,
):
    """One program: BLOCK ids, of whichever rows."""
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
