"""Third kernel of the chunked rule: the queries' reads, for all chunks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch

from .chunk_batch import ChunkBatch
from .chunk_stages import (
    decay_within,
    inverse_length,
    load_rows,
    locate_chunk,
    product,
    token_or_last,
)
from .chunks import FLA_CHUNK_SIZE


@triton.jit(
    do_not_specialize=["num_tokens"],
    do_not_specialize_on_alignment=["decays", "key_norms", "cu_seqlens", "chunk_indices"],
)
def chunk_output_kernel(
    o,  # [num_tokens, HV, V]
    q,  # [num_tokens, H, K], heads contiguous
    k,  # [num_tokens, H, K], heads contiguous
    states,  # [num_chunks, HV, V, K]: before each chunk
    written,  # [num_tokens, HV, V]: n
    decays,  # [HV, num_tokens] float32
    key_norms,  # [HV, num_tokens] float32
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    num_tokens,
    scale,
    q_stride,
    k_stride,
    GROUP: tl.constexpr,
    NORMALIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Computes the outputs of one chunk's tokens, for BLOCK_V values of one value head."""
    BLOCKS: tl.constexpr = V // BLOCK_V
    chunk = (tl.program_id(0) // BLOCKS).to(tl.int64)
    first_value = tl.program_id(0) % BLOCKS * BLOCK_V
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence, first, length = locate_chunk(chunk_indices, cu_seqlens, chunk, CHUNK, num_tokens)
    if sequence < 0:
        return
    row = tl.arange(0, CHUNK)
    exists = row < length
    token = (first + row).to(tl.int64)
    in_head = token * num_heads + head
    in_vector = head.to(tl.int64) * num_tokens + token

    queries = load_rows(q, token, q_stride, head // GROUP * K, exists, K)
    keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
    new = load_rows(written, in_head, V, first_value, exists, BLOCK_V)
    value = first_value + tl.arange(0, BLOCK_V)
    in_state = (value * K)[:, None] + tl.arange(0, K)[None, :]
    state = tl.load(states + (chunk * num_heads + head) * (V * K) + in_state)
    decay = tl.load(decays + head.to(tl.int64) * num_tokens + token_or_last(first, length, CHUNK))
    key_norm = tl.load(key_norms + in_vector, mask=exists, other=0.0)
    query_norm = inverse_length(queries) if NORMALIZE else tl.full([CHUNK], 1.0, tl.float32)

    P = product(queries, tl.trans(keys), None, PRECISION, UPCAST)
    P = P * decay_within(decay, CHUNK) * key_norm[None, :]
    out = product(queries, tl.trans(state), None, PRECISION, UPCAST) * tl.exp(decay)[:, None]
    out = product(P, new, out, PRECISION, UPCAST) * (query_norm * scale)[:, None]
    place = (in_head * V)[:, None] + value[None, :]
    tl.store(o + place, out.to(o.dtype.element_ty), mask=exists[:, None])


def read_outputs(
    batch: ChunkBatch,
    decays: torch.Tensor,
    key_norms: torch.Tensor,
    states_before: torch.Tensor,
    written: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Returns the outputs of all tokens, [1, T, HV, V], contiguous and of the queries' dtype.
    `decays` and `key_norms` are a ChunkSolution's."""
    o = batch.empty(*batch.v.shape, dtype=batch.q.dtype)
    if not batch.num_chunks:
        return o
    value_size, key_size = states_before.shape[2:]
    launch(
        chunk_output_kernel,
        (batch.num_chunks * (value_size // batch.block_v), batch.num_value_heads),
        o,
        batch.q,
        batch.k,
        states_before,
        written,
        decays,
        key_norms,
        batch.cu_seqlens,
        batch.chunk_indices,
        batch.num_tokens,
        scale,
        batch.q.stride(1),
        batch.k.stride(1),
        **batch.constants,
        NORMALIZE=batch.normalize,
        V=value_size,
        BLOCK_V=batch.block_v,
        num_warps=4,
        num_stages=1,
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE * (FLA_CHUNK_SIZE + value_size) * (key_size + FLA_CHUNK_SIZE),
            o,
            batch.q,
            batch.k,
            states_before,
            written,
        ),
    )
    return o
