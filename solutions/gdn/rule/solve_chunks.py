"""First kernel of the chunked rule: what the tokens of each chunk do to one another, for all
chunks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch

from .chunk_batch import ChunkBatch, ChunkSolution, inverse_type
from .chunk_stages import (
    bounded,
    decay_within,
    inverse_of_unit_lower,
    load_rows,
    locate_chunk,
    product,
    squared_length,
)
from .chunks import FLA_CHUNK_SIZE


@triton.jit(
    # One compiled kernel serves these tensors at any address, which depends on the number of
    # tokens.
    do_not_specialize=["num_tokens"],
    do_not_specialize_on_alignment=[
        "query_scales",
        "read_scales",
        "write_scales",
        "chunk_decays",
        "chunk_bounds",
        "g",
        "beta",
        "cu_seqlens",
        "chunk_indices",
    ],
)
def chunk_solve_kernel(
    solved,  # [num_tokens, HV, CHUNK]: T, row by row
    scores,  # [num_tokens, HV, CHUNK]: P, row by row
    query_scales,  # [HV, num_tokens] float32: factor of a query that reads the state
    read_scales,  # [HV, num_tokens] float32: factor of a key that reads the state, to subtract it
    write_scales,  # [HV, num_tokens] float32: factor of a key that writes the state after the chunk
    chunk_decays,  # [num_chunks, HV] float32
    chunk_bounds,  # [num_chunks, HV] float32
    q,  # [num_tokens, H, K], heads contiguous
    k,  # [num_tokens, H, K], heads contiguous
    g,  # [num_tokens, HV], heads contiguous
    beta,  # [num_tokens, HV], heads contiguous
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    num_tokens,
    scale,
    q_stride,
    k_stride,
    g_stride,
    beta_stride,
    GROUP: tl.constexpr,
    NORMALIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    KIND: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Computes the ChunkSolution of one chunk, for one value head."""
    chunk = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, chunk, CHUNK, num_tokens)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)
    exists = row < length
    token = (first + row).to(tl.int64)

    keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
    queries = load_rows(q, token, q_stride, head // GROUP * K, exists, K)
    gate = tl.load(g + token * g_stride + head, mask=exists, other=0.0).to(tl.float32)
    strength = tl.load(beta + token * beta_stride + head, mask=exists, other=0.0).to(tl.float32)
    gate = bounded(gate)
    decay = tl.cumsum(gate, 0)
    last = tl.sum(gate, 0)
    length_of_key = squared_length(keys)
    key_norm = tl.full([CHUNK], 1.0, tl.float32)
    query_norm = tl.full([CHUNK], scale, tl.float32)
    if NORMALIZE:
        key_norm = 1.0 / tl.sqrt(length_of_key + 1e-6)
        query_norm = scale / tl.sqrt(squared_length(queries) + 1e-6)
    # A token multiplies the state by 1 along all directions but its key's.
    along_key = tl.abs(1.0 - strength * length_of_key * key_norm * key_norm)
    growth = tl.sum(tl.log(tl.where(along_key < 1.0, 1.0, along_key)), 0)
    in_vector = head.to(tl.int64) * num_tokens + token
    tl.store(query_scales + in_vector, query_norm * tl.exp(decay), mask=exists)
    tl.store(read_scales + in_vector, -key_norm * tl.exp(decay), mask=exists)
    tl.store(write_scales + in_vector, key_norm * tl.exp(last - decay), mask=exists)
    tl.store(chunk_decays + chunk * num_heads + head, tl.exp(last))
    tl.store(chunk_bounds + chunk * num_heads + head, last + growth)

    place = ((token * num_heads + head) * CHUNK)[:, None] + row[None, :]
    within = decay_within(decay, CHUNK) * key_norm[None, :]
    P = product(queries, tl.trans(keys), None, PRECISION, UPCAST) * within * query_norm[:, None]
    tl.store(scores + place, P.to(scores.dtype.element_ty), mask=exists[:, None])
    A = product(keys, tl.trans(keys), None, PRECISION, UPCAST) * within
    A = A * (strength * key_norm)[:, None]
    A = tl.where(row[:, None] == row[None, :], 0.0, A)
    T = inverse_of_unit_lower(A, CHUNK, KIND, UPCAST) * strength[None, :]
    tl.store(solved + place, T.to(solved.dtype.element_ty), mask=exists[:, None])


MOST_REGISTERS = 168
"""Most registers of a thread that solves a chunk, so that an SM holds three blocks. Measured on an
H200 with 8192 tokens and 16 heads: 65 us. With 128, for four blocks, it is 72 us, and with 112, for
five, 97 us: registers spill."""


def solve_chunks(
    batch: ChunkBatch, g: torch.Tensor, beta: torch.Tensor, scale: float
) -> ChunkSolution:
    """Returns the ChunkSolution of the batch: solves each chunk by itself, in one launch for all
    chunks and value heads. `g` is [1, T, HV] float32 and `beta` [1, T, HV]."""
    heads, tokens = batch.num_value_heads, batch.num_tokens
    # Each is a tensor of its own, so that both are aligned whatever the number of tokens is.
    solved, scores = (batch.empty(tokens, heads, FLA_CHUNK_SIZE) for _ in range(2))
    scales = batch.empty(3, heads, tokens, dtype=torch.float32)
    of_chunks = batch.empty(2, batch.num_chunks, heads, dtype=torch.float32)
    solution = ChunkSolution(solved, scores, *scales, *of_chunks)
    if not batch.num_chunks:
        return solution
    key_size = batch.k.shape[3]
    launch(
        chunk_solve_kernel,
        (batch.num_chunks, heads),
        *solution,
        batch.q,
        batch.k,
        g,
        beta,
        batch.cu_seqlens,
        batch.chunk_indices,
        tokens,
        scale,
        batch.q.stride(1),
        batch.k.stride(1),
        g.stride(1),
        beta.stride(1),
        **batch.constants,
        NORMALIZE=batch.normalize,
        KIND=inverse_type(batch.q.dtype),
        num_warps=4,
        maxnreg=MOST_REGISTERS,
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE**2 * (2 * key_size + 10 * FLA_CHUNK_SIZE),
            batch.q,
            batch.k,
            g,
            beta,
            *solution,
        ),
    )
    return solution
