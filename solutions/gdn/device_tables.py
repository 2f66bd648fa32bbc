"""The chunk tables where the host doesn't know the lengths: made on the device, by one kernel."""

from __future__ import annotations

import torch
import triton

from debubble.accelerator import Work, launch

from .chunk_tables import FLA_CHUNK_SIZE, ChunkTables, check_chunk_size, most_chunks
from .device_tables_kernel import chunk_tables_kernel

TILE = 1024
"""Sequences that a program looks at together."""
BLOCK = 256
"""Rows of the table that a program writes."""


def prepare_chunk_tables_on_device(
    cu_seqlens: torch.Tensor,
    num_tokens: int,
    chunk_size: int = FLA_CHUNK_SIZE,
    out: ChunkTables | None = None,
) -> ChunkTables:
    """Both tables without an upload and without a wait (vLLM #38361): a graph that captured this
    can be replayed with other values in `cu_seqlens`.

    `cu_seqlens` [num_seqs + 1] int32 on the device, from 0 to `num_tokens`: where each sequence
    starts, then the end of the last one. `chunk_indices` has most_chunks(num_seqs, num_tokens)
    rows, or those of `out`, which must suffice. chunk_offsets[num_seqs] is the number of chunks,
    and the rows from there on are (-1, -1): a kernel has nothing to do for them.

    ValueError if types, shapes, devices or the chunk size are others than these.
    """
    check_chunk_size(chunk_size)
    _check_starts(cu_seqlens)
    num_seqs = len(cu_seqlens) - 1
    num_rows = most_chunks(num_seqs, num_tokens, chunk_size)
    if out is not None:
        _check_out(out, num_rows, num_seqs, cu_seqlens.device)
    return scan_chunks(cu_seqlens, num_tokens, chunk_size, out)


def scan_chunks(
    cu_seqlens: torch.Tensor, num_tokens: int, chunk_size: int, out: ChunkTables | None = None
) -> ChunkTables:
    """The same for chunks of any size, at least 1, unchecked."""
    num_seqs, device = len(cu_seqlens) - 1, cu_seqlens.device
    if out is None:
        num_rows = most_chunks(num_seqs, num_tokens, chunk_size)
        out = ChunkTables(
            torch.empty(num_rows, 2, dtype=torch.int32, device=device),
            torch.empty(num_seqs + 1, dtype=torch.int64, device=device),
        )
    num_rows = len(out.chunk_indices)
    num_programs = max(1, triton.cdiv(num_rows, BLOCK))  # Without rows there is still one offset.
    launch(
        chunk_tables_kernel,
        (num_programs,),
        out.chunk_indices,
        out.chunk_offsets,
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
    return out


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
    """Each program reads the starts and writes the offsets; together they write the rows."""
    return Work(bytes=num_programs * num_seqs * (4 + 8) + num_rows * 8, tensor_cores=False)
