"""First kernel of the chunked rule: the corrections between the tokens of each chunk, for all
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
    inverse_length,
    inverse_of_unit_lower,
    load_rows,
    locate_chunk,
    product,
)
from .chunks import FLA_CHUNK_SIZE


@triton.jit(
    # One compiled kernel serves these tensors at any address, which depends on the number of
    # tokens.
    do_not_specialize=["num_tokens"],
    do_not_specialize_on_alignment=[
        "decays",
        "key_norms",
        "read_scales",
        "write_scales",
        "g",
        "beta",
        "cu_seqlens",
        "chunk_indices",
    ],
)
def chunk_solve_kernel(
    solved,  # [num_tokens, HV, CHUNK]: T, row by row
    decays,  # [HV, num_tokens] float32: running sums of g inside the chunk
    key_norms,  # [HV, num_tokens] float32: the factor of each key that normalises it
    read_scales,  # [HV, num_tokens] float32: factor of a key that reads the state, to subtract it
    write_scales,  # [HV, num_tokens] float32: factor of a key that writes the state after the chunk
    chunk_decays,  # [num_chunks, HV] float32
    k,  # [num_tokens, H, K], heads contiguous
    g,  # [num_tokens, HV], heads contiguous
    beta,  # [num_tokens, HV], heads contiguous
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    num_tokens,
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
    gate = tl.load(g + token * g_stride + head, mask=exists, other=0.0).to(tl.float32)
    strength = tl.load(beta + token * beta_stride + head, mask=exists, other=0.0).to(tl.float32)
    gate = bounded(gate)
    decay = tl.cumsum(gate, 0)
    last = tl.sum(gate, 0)
    key_norm = inverse_length(keys) if NORMALIZE else tl.full([CHUNK], 1.0, tl.float32)
    in_vector = head.to(tl.int64) * num_tokens + token
    tl.store(decays + in_vector, decay, mask=exists)
    tl.store(key_norms + in_vector, key_norm, mask=exists)
    tl.store(read_scales + in_vector, -key_norm * tl.exp(decay), mask=exists)
    tl.store(write_scales + in_vector, key_norm * tl.exp(last - decay), mask=exists)
    tl.store(chunk_decays + chunk * num_heads + head, tl.exp(last))

    A = product(keys, tl.trans(keys), None, PRECISION, UPCAST) * decay_within(decay, CHUNK)
    A = A * (strength * key_norm)[:, None] * key_norm[None, :]
    A = tl.where(row[:, None] == row[None, :], 0.0, A)
    T = inverse_of_unit_lower(A, CHUNK, KIND, UPCAST) * strength[None, :]
    place = ((token * num_heads + head) * CHUNK)[:, None] + row[None, :]
    tl.store(solved + place, T.to(solved.dtype.element_ty), mask=exists[:, None])


MOST_REGISTERS = 168
"""Most registers of a thread that solves a chunk, so that an SM holds three blocks. Measured on an
H200: 47 us instead of 55 us with the 174 registers that the compiler would use."""


def solve_chunks(batch: ChunkBatch, g: torch.Tensor, beta: torch.Tensor) -> ChunkSolution:
    """Returns the ChunkSolution of the batch: solves each chunk by itself, in one launch for all
    chunks and value heads. `g` is [1, T, HV] float32 and `beta` [1, T, HV]."""
    heads, tokens = batch.num_value_heads, batch.num_tokens
    solved = batch.empty(tokens, heads, FLA_CHUNK_SIZE)
    decays, key_norms, read_scales, write_scales = batch.empty(
        4, heads, tokens, dtype=torch.float32
    )
    chunk_decays = batch.empty(batch.num_chunks, heads, dtype=torch.float32)
    solution = ChunkSolution(solved, decays, key_norms, read_scales, write_scales, chunk_decays)
    if not batch.num_chunks:
        return solution
    key_size = batch.k.shape[3]
    launch(
        chunk_solve_kernel,
        (batch.num_chunks, heads),
        *solution,
        batch.k,
        g,
        beta,
        batch.cu_seqlens,
        batch.chunk_indices,
        tokens,
        batch.k.stride(1),
        g.stride(1),
        beta.stride(1),
        **batch.constants,
        NORMALIZE=batch.normalize,
        KIND=inverse_type(batch.q.dtype),
        num_warps=4,
        maxnreg=MOST_REGISTERS,
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE**2 * (key_size + 10 * FLA_CHUNK_SIZE),
            batch.k,
            g,
            beta,
            *solution,
        ),
    )
    return solution
