"""Second single op: each token's correction of what the tokens before it in its chunk write."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..arguments import check_chunked_sizes, check_sequences, chunks_of
from ..chunk_batch import product_constants
from ..chunk_stages import decay_within, load_rows, locate_chunk, product, token_or_last
from ..chunks import FLA_CHUNK_SIZE
from .operands import FLOAT32, check_groups, check_operand


@triton.jit(
    do_not_specialize=["num_tokens"],
    do_not_specialize_on_alignment=["g", "beta", "cu_seqlens", "chunk_indices"],
)
def scaled_dot_kkt_kernel(
    A,  # [num_tokens, HV, CHUNK] float32
    k,  # [num_tokens, H, K], heads contiguous
    g,  # [num_tokens, HV] float32: running sums inside the chunk
    beta,  # [num_tokens, HV], heads contiguous
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    num_tokens,
    k_stride,
    beta_stride,
    GROUP: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Computes the rows of A for one chunk and one value head."""
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

    keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
    decay = tl.load(g + token_or_last(first, length, CHUNK) * num_heads + head)
    strength = tl.load(beta + token * beta_stride + head, mask=exists, other=0.0).to(tl.float32)
    products = product(keys, tl.trans(keys), None, PRECISION, UPCAST)
    products = products * decay_within(decay, CHUNK) * strength[:, None]
    products = tl.where(row[:, None] > row[None, :], products, 0.0)
    place = (in_head * CHUNK)[:, None] + row[None, :]
    tl.store(A + place, products, mask=exists[:, None])


def chunk_scaled_dot_kkt_fwd(
    k: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns A [1, T, HV, FLA_CHUNK_SIZE] float32: in the row of token i, for each token j before
    it in its chunk, beta_i exp(g_i - g_j) (k_i . k_j); elsewhere 0 (vLLM #38361).

    k              [1, T, H, K], normalised, the heads of a token contiguous
    g              [1, T, HV] float32, contiguous: from `chunk_local_cumsum`
    beta           [1, T, HV]
    cu_seqlens, chunk_indices as in `chunk_local_cumsum`; so are the errors
    """
    check_operand("k", k, (1, "T", "H", "K"), k.device, dense_from=2)
    check_chunked_sizes(k, k)
    _, num_tokens, num_heads, key_size = k.shape
    check_operand("g", g, (1, num_tokens, "HV"), k.device, FLOAT32)
    num_value_heads = g.shape[2]
    check_groups(num_heads, num_value_heads)
    check_operand("beta", beta, g.shape, k.device, dense_from=2)
    check_sequences(k, cu_seqlens, chunk_indices)
    starts, rows = chunks_of(k, cu_seqlens, chunk_indices)
    grid = (len(rows), num_value_heads)
    A = torch.empty(*g.shape, FLA_CHUNK_SIZE, dtype=torch.float32, device=k.device)
    launch(
        scaled_dot_kkt_kernel,
        grid,
        A,
        k,
        g,
        beta,
        starts,
        rows,
        num_tokens,
        k.stride(1),
        beta.stride(1),
        GROUP=num_value_heads // num_heads,
        CHUNK=FLA_CHUNK_SIZE,
        K=key_size,
        **product_constants(k.dtype),
        num_warps=4,
        work=lambda: Work(
            flops=2.0 * FLA_CHUNK_SIZE**2 * key_size * grid[0] * grid[1],
            tensor_cores=k.dtype != torch.float32,
        ),
    )
    return A
