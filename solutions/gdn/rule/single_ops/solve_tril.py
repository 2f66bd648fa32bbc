"""Third single op: all corrections inside a chunk at once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.decoder.shape import FLOATS

from ..arguments import check_sequences, chunks_of
from ..chunk_batch import inverse_type
from ..chunk_stages import inverse_of_unit_lower, load_rows, locate_chunk
from .operands import FLOAT32, check_operand

SOLVED_SIZES = (16, 32, 64)


@triton.jit(
    do_not_specialize=["num_tokens"], do_not_specialize_on_alignment=["cu_seqlens", "chunk_indices"]
)
def solve_tril_kernel(
    inverse,  # [num_tokens, HV, CHUNK]
    A,  # [num_tokens, HV, CHUNK] float32
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    num_tokens,
    CHUNK: tl.constexpr,
    KIND: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Inverts I + A of one chunk, for one value head."""
    chunk = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, chunk, CHUNK, num_tokens)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)
    exists = row < length
    in_head = (first + row).to(tl.int64) * num_heads + head

    lower = load_rows(A, in_head, CHUNK, 0, exists, CHUNK)
    lower = tl.where(row[:, None] > row[None, :], lower, 0.0)
    X = inverse_of_unit_lower(lower, CHUNK, KIND, UPCAST)
    place = (in_head * CHUNK)[:, None] + row[None, :]
    tl.store(inverse + place, X.to(inverse.dtype.element_ty), mask=exists[:, None])


def solve_tril(
    A: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None = None,
    output_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Returns (I + A)^-1 of each chunk and head, [1, T, HV, C] of `output_dtype`, in rows like `A`
    (vLLM #38361).

    A              [1, T, HV, C] float32, contiguous: from `chunk_scaled_dot_kkt_fwd`, or of chunks
                   of C tokens, 16, 32 or 64. Only the part below the diagonal is read.
    output_dtype   bfloat16, float16 or float32; for the first two, products are of float16
    cu_seqlens, chunk_indices as in `chunk_local_cumsum`, of chunks of C tokens; so are the errors
    """
    check_operand("A", A, (1, "T", "HV", "C"), A.device, FLOAT32)
    _, num_tokens, num_heads, chunk_size = A.shape
    if chunk_size not in SOLVED_SIZES:
        raise ValueError(f"A of chunks of {chunk_size} tokens: this kernel solves 16, 32 or 64")
    if output_dtype not in FLOATS:
        raise ValueError(f"output_dtype {output_dtype}: use bfloat16, float16 or float32")
    check_sequences(A, cu_seqlens, chunk_indices, chunk_size=chunk_size)
    starts, rows = chunks_of(A, cu_seqlens, chunk_indices, chunk_size)
    grid = (len(rows), num_heads)
    inverse = torch.empty_like(A, dtype=output_dtype)
    launch(
        solve_tril_kernel,
        grid,
        inverse,
        A,
        starts,
        rows,
        num_tokens,
        CHUNK=chunk_size,
        KIND=inverse_type(output_dtype),
        UPCAST=triton.knobs.runtime.interpret,
        num_warps=4,
        work=lambda: Work(
            flops=2.0 * chunk_size**3 * _num_products(chunk_size) * grid[0] * grid[1]
        ),
    )
    return inverse


def _num_products(chunk_size: int) -> int:
    """Returns the number of matrix products that invert one chunk: two for each block size from 2
    to half a chunk."""
    return 2 * (chunk_size.bit_length() - 2)
