"""Fourth single op: what the tokens of a chunk write, but for what they find in the state."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..chunk_stages import (
    as_operand,
    load_rows,
    locate_chunk,
    product,
    product_constants,
    product_type,
)
from ..chunk_tables import FLA_CHUNK_SIZE
from ..sequence_tables import check_sequences, sequences_of
from ..token_shapes import check_chunked_sizes
from .operands import FLOAT32, check_groups, check_operand


@triton.jit(do_not_specialize_on_alignment=["beta", "g", "cu_seqlens", "chunk_indices"])
def w_u_kernel(
    w,  # [num_tokens, HV, K]
    u,  # [num_tokens, HV, V]
    k,  # [num_tokens, H, K], heads contiguous
    v,  # [num_tokens, HV, V], heads contiguous
    beta,  # [num_tokens, HV], heads contiguous
    g,  # [num_tokens, HV] float32: running sums inside the chunk
    inverse,  # [num_tokens, HV, CHUNK]
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    k_stride,
    v_stride,
    beta_stride,
    GROUP: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """One program: one chunk, one value head."""
    chunk = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, chunk, CHUNK)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)
    exists = row < length
    token = (first + row).to(tl.int64)
    in_head = token * num_heads + head

    strength = tl.load(beta + token * beta_stride + head, mask=exists, other=0.0).to(tl.float32)
    decay = tl.load(g + in_head, mask=exists, other=0.0)
    T = load_rows(inverse, in_head, CHUNK, 0, exists, CHUNK)
    values = load_rows(v, token, v_stride, head * V, exists, V) * strength[:, None]
    of_values = product(T, as_operand(values, T.dtype, UPCAST), None, PRECISION, UPCAST)
    place = (in_head * V)[:, None] + tl.arange(0, V)[None, :]
    tl.store(u + place, of_values.to(u.dtype.element_ty), mask=exists[:, None])
    keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
    keys = keys * (strength * tl.exp(decay))[:, None]
    of_keys = product(T, as_operand(keys, T.dtype, UPCAST), None, PRECISION, UPCAST)
    place = (in_head * K)[:, None] + tl.arange(0, K)[None, :]
    tl.store(w + place, of_keys.to(w.dtype.element_ty), mask=exists[:, None])


def recompute_w_u_fwd(
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    g: torch.Tensor,
    A: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(w [1, T, HV, K], u [1, T, HV, V]) of the products' type: `A` times beta exp(g) k, and `A`
    times beta v, chunk by chunk. A token writes u - w S^T, S the state before its chunk
    (vLLM #38361).

    k              [1, T, H, K], normalised, the heads of a token contiguous
    v              [1, T, HV, V], the same
    beta           [1, T, HV]
    g              [1, T, HV] float32, contiguous: of `chunk_local_cumsum`
    A              [1, T, HV, FLA_CHUNK_SIZE], contiguous: of `solve_tril`
    cu_seqlens, chunk_indices as in `chunk_local_cumsum`; so are the errors
    """
    check_operand("k", k, (1, "T", "H", "K"), k.device, dense_from=2)
    _, num_tokens, num_heads, key_size = k.shape
    check_operand("v", v, (1, num_tokens, "HV", "V"), k.device, (k.dtype,), dense_from=2)
    check_chunked_sizes(k, v)
    num_value_heads, value_size = v.shape[2:]
    check_groups(num_heads, num_value_heads)
    gates = (1, num_tokens, num_value_heads)
    check_operand("beta", beta, gates, k.device, dense_from=2)
    check_operand("g", g, gates, k.device, FLOAT32)
    check_operand("A", A, (*gates, FLA_CHUNK_SIZE), k.device)
    check_sequences(k, cu_seqlens, chunk_indices)
    starts, tables = sequences_of(k, cu_seqlens, chunk_indices)
    grid = (len(tables.chunk_indices), num_value_heads)
    dtype = product_type(k.dtype)
    w = torch.empty(*gates, key_size, dtype=dtype, device=k.device)
    u = torch.empty(*gates, value_size, dtype=dtype, device=k.device)
    launch(
        w_u_kernel,
        grid,
        w,
        u,
        k,
        v,
        beta,
        g,
        A,
        starts,
        tables.chunk_indices,
        k.stride(1),
        v.stride(1),
        beta.stride(1),
        GROUP=num_value_heads // num_heads,
        CHUNK=FLA_CHUNK_SIZE,
        K=key_size,
        V=value_size,
        **product_constants(k.dtype),
        num_warps=4,
        work=lambda: Work(
            flops=2.0 * FLA_CHUNK_SIZE**2 * (key_size + value_size) * grid[0] * grid[1],
            tensor_cores=k.dtype != torch.float32,
        ),
    )
    return w, u
