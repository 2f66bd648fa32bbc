"""Makes the chunk tables on the device, by one kernel, if the host doesn't know the lengths.

A program writes some rows of the table, and needs the offsets to find their sequences. Programs
can't wait for one another, so each of them computes all offsets. All write the same numbers to the
same places, and each reads only what it has written itself.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .rule.chunks import FLA_CHUNK_SIZE, ChunkTables, check_chunk_size, most_chunks


@triton.jit(
    # One compiled kernel serves all of these values, which differ from step to step.
    do_not_specialize=["num_rows", "num_seqs", "bisections"],
    do_not_specialize_on_alignment=["chunk_indices", "chunk_offsets", "cu_seqlens"],
)
def chunk_tables_kernel(
    chunk_indices,  # [num_rows, 2] int32, contiguous
    chunk_offsets,  # [num_seqs + 1] int64
    cu_seqlens,  # [num_seqs + 1] int32
    num_rows,
    num_seqs,
    bisections,  # steps of bisection that tell num_seqs sequences apart
    CHUNK: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Writes both chunk tables: each program writes all offsets, TILE sequences at a time, then its
    BLOCK rows of `chunk_indices`."""
    num_chunks = 0
    # One entry more than there are sequences: the last one is the number of all chunks.
    for first in range(0, num_seqs + 1, TILE):
        sequence = first + tl.arange(0, TILE)
        exists = sequence < num_seqs
        start = tl.load(cu_seqlens + sequence, mask=exists, other=0)
        end = tl.load(cu_seqlens + sequence + 1, mask=exists, other=0)
        chunks = (end - start + (CHUNK - 1)) // CHUNK
        before = num_chunks + tl.cumsum(chunks) - chunks
        tl.store(chunk_offsets + sequence, before.to(tl.int64), mask=sequence <= num_seqs)
        num_chunks += tl.sum(chunks)
    # Below, a thread reads what other threads have written above.
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


TILE = 1024
"""Number of sequences that a program of `chunk_tables_kernel` reads at a time."""
BLOCK = 256
"""Rows of the table that a program writes."""


def prepare_chunk_tables_on_device(
    cu_seqlens: torch.Tensor,
    num_tokens: int,
    chunk_size: int = FLA_CHUNK_SIZE,
    out: ChunkTables | None = None,
) -> ChunkTables:
    """Returns both tables, made on the device without an upload and without a wait (vLLM #38361),
    so a graph that captured this can be replayed with other values in `cu_seqlens`. Writes them to
    `out` if it is given.

    `cu_seqlens` [num_seqs + 1] int32 on the device, from 0 to `num_tokens`: where each sequence
    starts, then the end of the last one. `chunk_indices` has most_chunks(num_seqs, num_tokens)
    rows, or those of `out`, which must be as many or more. chunk_offsets[num_seqs] is the number of
    chunks, and the rows from there on are (-1, -1): a kernel does nothing for them.

    Raises ValueError for other dtypes, shapes, devices or chunk sizes.
    """
    check_chunk_size(chunk_size)
    _check_starts(cu_seqlens)
    if out is None:
        return search_chunk_tables(cu_seqlens, num_tokens, chunk_size)
    num_seqs = len(cu_seqlens) - 1
    num_rows = most_chunks(num_seqs, num_tokens, chunk_size)
    _check_out(out, num_rows, num_seqs, cu_seqlens.device)
    fill_chunk_tables(out, cu_seqlens, chunk_size)
    return out


def search_chunk_tables(
    cu_seqlens: torch.Tensor, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Returns both tables for sequences whose lengths the host doesn't know (vLLM #38361).

    `cu_seqlens` is [num_seqs + 1] int32 on the device, from 0 to `num_tokens`: where each sequence
    starts, then the end of the last one. `chunk_indices` has most_chunks(num_seqs, num_tokens,
    chunk_size) rows; the rows after the last chunk are (-1, -1).
    """
    num_seqs, device = len(cu_seqlens) - 1, cu_seqlens.device
    num_rows = most_chunks(num_seqs, num_tokens, chunk_size)
    tables = ChunkTables(
        torch.empty(num_rows, 2, dtype=torch.int32, device=device),
        torch.empty(num_seqs + 1, dtype=torch.int64, device=device),
    )
    fill_chunk_tables(tables, cu_seqlens, chunk_size)
    return tables


def fill_chunk_tables(tables: ChunkTables, cu_seqlens: torch.Tensor, chunk_size: int) -> None:
    """Fills `tables` with the chunk tables of `cu_seqlens` by one launch, for chunks of at least 1
    token. `tables` must have at least as many rows as these sequences may need; this is not
    checked."""
    num_rows, num_seqs = len(tables.chunk_indices), len(cu_seqlens) - 1
    num_programs = max(1, triton.cdiv(num_rows, BLOCK))  # Even without rows there is one offset.
    launch(
        chunk_tables_kernel,
        (num_programs,),
        tables.chunk_indices,
        tables.chunk_offsets,
        cu_seqlens,
        num_rows,
        num_seqs,
        (num_seqs - 1).bit_length(),
        CHUNK=chunk_size,
        TILE=TILE,
        BLOCK=BLOCK,
        num_warps=4,
        work=lambda: _work(num_programs, num_rows, num_seqs),
    )


def _check_starts(cu_seqlens: torch.Tensor) -> None:
    if cu_seqlens.device.type == "cpu":
        raise ValueError("cu_seqlens is on the host: there, use upload_chunk_tables")
    of_starts = cu_seqlens.dim() == 1 and len(cu_seqlens) > 0
    if not of_starts or cu_seqlens.dtype != torch.int32 or not cu_seqlens.is_contiguous():
        raise ValueError(
            f"cu_seqlens is {cu_seqlens.dtype} {list(cu_seqlens.shape)}: make it torch.int32 "
            "[num_seqs + 1], contiguous"
        )


def _check_out(out: ChunkTables, num_rows: int, num_seqs: int, device: torch.device) -> None:
    rows = max(num_rows, out.chunk_indices.shape[:1].numel())
    for name, tensor, dtype, shape, words in (
        ("chunk_indices", out.chunk_indices, torch.int32, (rows, 2), f"[{num_rows} or more, 2]"),
        ("chunk_offsets", out.chunk_offsets, torch.int64, (num_seqs + 1,), f"[{num_seqs + 1}]"),
    ):
        if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(
                f"out.{name} is {tensor.dtype} {list(tensor.shape)}: for these cu_seqlens make it "
                f"{dtype} {words}, contiguous"
            )
        if tensor.device != device:
            raise ValueError(f"out.{name} is on {tensor.device}, and cu_seqlens on {device}")


def _work(num_programs: int, num_rows: int, num_seqs: int) -> Work:
    """Returns the bytes that one launch moves, for sim's cost model: each program reads all starts
    and writes all offsets, and together they write the rows."""
    return Work(bytes=num_programs * num_seqs * (4 + 8) + num_rows * 8, tensor_cores=False)
