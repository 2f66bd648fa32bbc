"""Fourth single op: the tokens' writes inside a chunk, without the part that depends on the
state."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..arguments import check_chunked_sizes, check_sequences, chunks_of
from ..chunk_batch import product_constants, product_type
from ..chunk_stages import as_operand, load_rows, locate_chunk, product
from ..chunks import FLA_CHUNK_SIZE
from .operands import FLOAT32, check_groups, check_operand


@triton.jit(
    do_not_specialize=["num_tokens"],
    do_not_specialize_on_alignment=["beta", "g", "cu_seqlens", "chunk_indices"],
)
def w_u_kernel(
    out,  # [num_tokens, HV, SIZE]: w or u
    x,  # [num_tokens, H or HV, SIZE], heads contiguous: k or v
    beta,  # [num_tokens, HV], heads contiguous
    g,  # [num_tokens, HV] float32: running sums inside the chunk; not read without DECAYS
    inverse,  # [num_tokens, HV, CHUNK]
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    num_tokens,
    x_stride,
    beta_stride,
    GROUP: tl.constexpr,
    DECAYS: tl.constexpr,
    CHUNK: tl.constexpr,
    SIZE: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Multiplies `inverse` by beta, exp(g) if DECAYS, and x, for one chunk and one value head: w if
    x are keys, u if x are values.

    It computes w or u, not both. With both in one program, and keys of 16 beside larger values,
    Triton 3.6 generated code that ended in an illegal memory access on an H200.
    """
    chunk = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, chunk, CHUNK, num_tokens)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)
    exists = row < length
    token = (first + row).to(tl.int64)
    in_head = token * num_heads + head

    factor = tl.load(beta + token * beta_stride + head, mask=exists, other=0.0).to(tl.float32)
    if DECAYS:
        factor *= tl.exp(tl.load(g + in_head, mask=exists, other=0.0))
    rows = load_rows(x, token, x_stride, head // GROUP * SIZE, exists, SIZE) * factor[:, None]
    T = load_rows(inverse, in_head, CHUNK, 0, exists, CHUNK)
    result = product(T, as_operand(rows, T.dtype, UPCAST), None, PRECISION, UPCAST)
    place = (in_head * SIZE)[:, None] + tl.arange(0, SIZE)[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=exists[:, None])


def recompute_w_u_fwd(
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    g: torch.Tensor,
    A: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (w [1, T, HV, K], u [1, T, HV, V]) of the products' dtype: `A` times beta exp(g) k,
    and `A` times beta v, chunk by chunk. A token writes u - w S^T, where S is the state before its
    chunk (vLLM #38361).

    k              [1, T, H, K], normalised, the heads of a token contiguous
    v              [1, T, HV, V], the same
    beta           [1, T, HV]
    g              [1, T, HV] float32, contiguous: from `chunk_local_cumsum`
    A              [1, T, HV, FLA_CHUNK_SIZE], contiguous: from `solve_tril`
    cu_seqlens, chunk_indices as in `chunk_local_cumsum`; so are the errors
    """
    check_operand("k", k, (1, "T", "H", "K"), k.device, dense_from=2)
    _, num_tokens, num_heads, _ = k.shape
    check_operand("v", v, (1, num_tokens, "HV", "V"), k.device, (k.dtype,), dense_from=2)
    check_chunked_sizes(k, v)
    num_value_heads = v.shape[2]
    check_groups(num_heads, num_value_heads)
    gates = (1, num_tokens, num_value_heads)
    check_operand("beta", beta, gates, k.device, dense_from=2)
    check_operand("g", g, gates, k.device, FLOAT32)
    check_operand("A", A, (*gates, FLA_CHUNK_SIZE), k.device)
    check_sequences(k, cu_seqlens, chunk_indices)
    starts, rows = chunks_of(k, cu_seqlens, chunk_indices)
    w = _times_inverse(k, beta, g, A, starts, rows, decays=True)
    return w, _times_inverse(v, beta, g, A, starts, rows, decays=False)


def _times_inverse(
    x: torch.Tensor,
    beta: torch.Tensor,
    g: torch.Tensor,
    inverse: torch.Tensor,
    cu_seqlens: torch.Tensor,
    chunk_indices: torch.Tensor,
    decays: bool,
) -> torch.Tensor:
    """Returns `inverse` times beta, exp(g) if `decays`, and x, chunk by chunk: [1, T, HV, size of
    x] of the products' dtype."""
    num_value_heads, (num_tokens, num_heads, size) = g.shape[2], x.shape[1:]
    grid = (len(chunk_indices), num_value_heads)
    out = torch.empty(*g.shape, size, dtype=product_type(x.dtype), device=x.device)
    launch(
        w_u_kernel,
        grid,
        out,
        x,
        beta,
        g,
        inverse,
        cu_seqlens,
        chunk_indices,
        num_tokens,
        x.stride(1),
        beta.stride(1),
        GROUP=num_value_heads // num_heads,
        DECAYS=decays,
        CHUNK=FLA_CHUNK_SIZE,
        SIZE=size,
        **product_constants(x.dtype),
        num_warps=4,
        work=lambda: Work(
            flops=2.0 * FLA_CHUNK_SIZE**2 * size * grid[0] * grid[1],
            tensor_cores=x.dtype != torch.float32,
        ),
    )
    return out
