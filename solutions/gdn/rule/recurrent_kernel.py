"""The gated delta rule token by token: each program carries a part of one state through a sequence.

A row of a state, the K numbers of one value, is read and changed by that value alone. So programs
share the values of a head among them, and none waits for another.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .slot_stages import first_slot, slot_behind, store_zeros


@triton.jit(
    # Whatever a step holds, and wherever an upload has it, it is the same compiled kernel.
    do_not_specialize=["num_tokens", "num_slots", "num_columns", "index_stride"],
    do_not_specialize_on_alignment=[
        "g",
        "beta",
        "cu_seqlens",
        "state_indices",
        "num_accepted_tokens",
    ],
)
def recurrent_kernel(
    o,  # [num_tokens, HV, V], contiguous
    q,  # [num_tokens, H, K], the heads of a token side by side, as in all that follow
    k,  # [num_tokens, H, K]
    v,  # [num_tokens, HV, V]
    g,  # [num_tokens, HV] float32
    beta,  # [num_tokens, HV]
    states,  # [num_slots, HV, V, K] float32, each slot contiguous; not read without HAS_STATES
    cu_seqlens,  # [num_seqs + 1] int32; not read without HAS_STARTS: one token each
    state_indices,  # [num_seqs, num_columns] int32; not read without HAS_INDICES: slots 0, 1, ...
    num_accepted_tokens,  # [num_seqs] int32; read only if SPECULATIVE
    scale,
    num_tokens,
    num_slots,
    num_columns,
    index_stride,
    q_stride,
    k_stride,
    v_stride,
    g_stride,
    beta_stride,
    slot_stride,
    HV: tl.constexpr,
    GROUP: tl.constexpr,  # value heads of one key head
    K: tl.constexpr,
    V: tl.constexpr,
    HAS_STATES: tl.constexpr,
    HAS_STARTS: tl.constexpr,
    HAS_INDICES: tl.constexpr,
    SPECULATIVE: tl.constexpr,  # each token leaves the state behind it in a slot of its own
    NORMALIZE: tl.constexpr,
    BLOCK_K: tl.constexpr,  # a power of two, at least K
    BLOCK_V: tl.constexpr,
):
    """One program: BLOCK_V values of one value head of one sequence."""
    sequence = (tl.program_id(0) // HV).to(tl.int64)
    head = tl.program_id(0) % HV
    value = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    key = tl.arange(0, BLOCK_K)
    is_value = value < V
    is_key = key < K
    is_state = is_value[:, None] & is_key[None, :]
    o += head * V + value
    if HAS_STARTS:
        first = tl.load(cu_seqlens + sequence).to(tl.int64)
        end = tl.load(cu_seqlens + sequence + 1)
        length = end - first.to(tl.int32)
        if sequence == tl.num_programs(0) // HV - 1:
            # The tokens behind the last sequence are nobody's: a batch may be padded.
            store_zeros(o + end.to(tl.int64) * (HV * V), HV * V, num_tokens - end, is_value)
        if length <= 0:
            return
    else:
        first = sequence
        length = 1
    o += first * (HV * V)

    if HAS_STATES:
        slot = sequence
        if HAS_INDICES:
            state_indices += sequence * index_stride
            slot = first_slot(
                state_indices, num_accepted_tokens, sequence, num_columns, SPECULATIVE
            )
        if (slot < 0) | (slot >= num_slots):
            store_zeros(o, HV * V, length, is_value)
            return
        states += (head * V + value)[:, None] * K + key[None, :]
        state = tl.load(states + slot * slot_stride, mask=is_state, other=0.0)
    else:
        state = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)

    q += first * q_stride + head // GROUP * K + key
    k += first * k_stride + head // GROUP * K + key
    v += first * v_stride + head * V + value
    g += first * g_stride + head
    beta += first * beta_stride + head
    for token in range(length):
        query = tl.load(q, mask=is_key, other=0.0).to(tl.float32)
        keys = tl.load(k, mask=is_key, other=0.0).to(tl.float32)
        if NORMALIZE:
            query = query / tl.sqrt(tl.sum(query * query, 0) + 1e-6)
            keys = keys / tl.sqrt(tl.sum(keys * keys, 0) + 1e-6)
        state = state * tl.exp(tl.load(g))
        remembered = tl.sum(state * keys[None, :], 1)
        change = tl.load(v, mask=is_value, other=0.0).to(tl.float32) - remembered
        change = change * tl.load(beta).to(tl.float32)
        state = state + change[:, None] * keys[None, :]
        result = tl.sum(state * query[None, :], 1) * scale
        tl.store(o, result.to(o.dtype.element_ty), mask=is_value)
        if SPECULATIVE:
            slot = slot_behind(state_indices, token, num_columns)
            is_kept = is_state & (slot >= 0) & (slot < num_slots)
            # Several threads may hold the same number: none writes before all have read.
            tl.debug_barrier()
            tl.store(states + slot * slot_stride, state, mask=is_kept)
        o += HV * V
        q += q_stride
        k += k_stride
        v += v_stride
        g += g_stride
        beta += beta_stride
    if HAS_STATES and not SPECULATIVE:
        tl.debug_barrier()
        tl.store(states + slot * slot_stride, state, mask=is_state)
