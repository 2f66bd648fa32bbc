"""The scan kernel: both chunk tables, from the starts of the sequences on the device.

A program writes some rows of the table, and to find their sequences it needs the offsets. Programs
can't wait for one another, so each of them computes all offsets. All write the same numbers to the
same places, and each reads only what it has written itself.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # These differ from step to step, and it is the same compiled kernel.
    do_not_specialize=["num_rows", "num_seqs", "bisections"],
    do_not_specialize_on_alignment=["chunk_indices", "chunk_offsets", "cu_seqlens"],
)
def chunk_tables_kernel(
    chunk_indices,  # [num_rows, 2] int32, contiguous
    chunk_offsets,  # [num_seqs + 1] int64
    cu_seqlens,  # [num_seqs + 1] int32
    num_rows,
    num_seqs,
    bisections,  # as many as it takes to tell num_seqs sequences apart
    CHUNK: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program: all offsets, TILE sequences at a time, then BLOCK rows."""
    num_chunks = 0
    # One more than there are sequences: what comes before it is the number of all chunks.
    for first in range(0, num_seqs + 1, TILE):
        sequence = first + tl.arange(0, TILE)
        exists = sequence < num_seqs
        start = tl.load(cu_seqlens + sequence, mask=exists, other=0)
        end = tl.load(cu_seqlens + sequence + 1, mask=exists, other=0)
        chunks = (end - start + (CHUNK - 1)) // CHUNK
        before = num_chunks + tl.cumsum(chunks) - chunks
        tl.store(chunk_offsets + sequence, before.to(tl.int64), mask=sequence <= num_seqs)
        num_chunks += tl.sum(chunks)
    # A thread reads below what other threads have written above.
    tl.debug_barrier()

    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # Always offsets[low] <= row < offsets[high], so that a sequence without chunks is never chosen.
    low = tl.full([BLOCK], 0, tl.int32)
    high = low + num_seqs
    for _ in range(bisections):
        middle = (low + high) // 2
        starts_later = tl.load(chunk_offsets + middle) > row
        high = tl.where(starts_later, middle, high)
        low = tl.where(starts_later, low, middle)
    is_chunk = row < num_chunks
    chunk = row - tl.load(chunk_offsets + low).to(tl.int32)
    written = chunk_indices + row.to(tl.int64) * 2
    tl.store(written, tl.where(is_chunk, low, -1), mask=row < num_rows)
    tl.store(written + 1, tl.where(is_chunk, chunk, -1), mask=row < num_rows)
