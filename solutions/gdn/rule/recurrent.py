"""The gated delta rule token by token, for a decode step and for a step with drafted tokens.

Each program carries a part of one state through a sequence. A row of a state, the K numbers of one
value, is read and changed by that value alone. So programs share the values of a head among them,
and none waits for another.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.asked import ASKED
from solutions.common.one_device import check_one_device

from .arguments import check_tokens, is_dense
from .state_slots import (
    check_state_slots,
    expect_own,
    first_slot,
    slot_behind,
    store_zeros,
    tokens_of,
)


@triton.jit(
    # One compiled kernel serves all of these values, and tensors at any address in an upload.
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
    q,  # [num_tokens, H, K], the heads of a token contiguous, as in all tensors below
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
    SPECULATIVE: tl.constexpr,  # each token writes the state after it to its own slot
    NORMALIZE: tl.constexpr,
    BLOCK_K: tl.constexpr,  # a power of two, at least K
    BLOCK_V: tl.constexpr,
):
    """Computes the outputs of one sequence's tokens, one after the other, for BLOCK_V values of one
    value head, and updates that part of the state."""
    sequence = (tl.program_id(0) // HV).to(tl.int64)
    head = tl.program_id(0) % HV
    value = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    key = tl.arange(0, BLOCK_K)
    is_value = value < V
    is_key = key < K
    is_state = is_value[:, None] & is_key[None, :]
    o += head * V + value
    if HAS_STARTS:
        first, end = tokens_of(cu_seqlens, sequence, num_tokens)
        length = end - first
        if sequence == tl.num_programs(0) // HV - 1:
            # The tokens after the last sequence belong to no sequence: a batch may be padded.
            store_zeros(o + end.to(tl.int64) * (HV * V), HV * V, num_tokens - end, is_value)
        if length <= 0:
            return
    else:
        first = sequence
        length = 1
    first = first.to(tl.int64)
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
        if ASKED and HAS_INDICES:
            num_seqs = tl.num_programs(0) // HV
            is_first = (head == 0) & (tl.program_id(1) == 0)
            expect_own(
                is_first, slot, state_indices, sequence, index_stride, num_columns, cu_seqlens,
                num_seqs, HAS_STARTS,
            )  # fmt: skip
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
            if ASKED:
                expect_own(
                    is_first & (slot >= 0), slot, state_indices, sequence, index_stride,
                    num_columns, cu_seqlens, num_seqs, HAS_STARTS,
                )  # fmt: skip
            is_kept = is_state & (slot >= 0) & (slot < num_slots)
            # Several threads may hold the same number: no thread writes before all have read.
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


BLOCK_V = 32
"""Number of values of one program: with K = 128 its part of a state then lies in 32 registers of
each of 128 threads."""


def fused_recurrent_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    ssm_state_indices: torch.Tensor | None = None,
    num_accepted_tokens: torch.Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns (o [1, T, HV, V] like `v`, `initial_state`) of N sequences, in one launch (vLLM
    #38361).

    Each sequence reads its state from a slot of `initial_state` and writes the new one there. If
    `initial_state` is None, it starts from zeros and writes no state.

    q, k                 [1, T, H, K], K up to 256; bfloat16, float16 or float32
    v                    [1, T, HV, V] of the same dtype; HV a multiple of H
    g                    [1, T, HV] float32: the logarithm of the decay
    beta                 [1, T, HV]; bfloat16, float16 or float32
    scale                factor of the queries, by default K ** -0.5
    initial_state        [num_slots, HV, V, K] float32
    cu_seqlens           [N + 1] int32: where each sequence starts, then the end of the last one;
                         None if each has one token
    ssm_state_indices    [N] int32: the slot of each sequence, by default 0 to N - 1;
                         or [N, 1 + drafts]: its slots, one for each token
    num_accepted_tokens  [N] int32, only with a row of slots for each sequence. Sequence n starts
                         from the state after the last accepted token, in slot
                         ssm_state_indices[n, num_accepted_tokens[n] - 1], and writes the state
                         after its token j to slot ssm_state_indices[n, j], so that the next step
                         can go back to any of them

    In all tensors the heads of a token are contiguous, and so are the numbers of a slot.

    A sequence gives zeros and writes nothing if its slot is < 0 or beyond the pool, or if there is
    no column for its number of accepted tokens. Tokens after the last sequence give zeros too. A
    token whose own slot is < 0 or beyond the pool writes no state. A sequence without tokens leaves
    its slots alone. If `cu_seqlens` ends a sequence after the last token, it ends at that token. No
    sequence may have a slot that another sequence with tokens writes: on sim that is a
    RuntimeError.

    Raises ValueError, before any launch, for shapes, strides and dtypes that don't fit.
    """
    check_tokens(q, k, v, g, beta)
    num_seqs = v.shape[1] if cu_seqlens is None else cu_seqlens.numel() - 1
    check_state_slots(
        num_seqs,
        {"cu_seqlens": cu_seqlens},
        {"ssm_state_indices": ssm_state_indices},
        num_accepted_tokens,
    )
    _check_states(initial_state, num_seqs, ssm_state_indices, q, v)
    of_batch = {"cu_seqlens": cu_seqlens, "ssm_state_indices": ssm_state_indices}
    states_of = {"initial_state": initial_state, "num_accepted_tokens": num_accepted_tokens}
    check_one_device({"q": q} | of_batch | states_of)
    _, num_tokens, num_heads, key_size = q.shape
    num_value_heads, value_size = v.shape[2:]
    if not num_seqs:
        return torch.zeros_like(v, memory_format=torch.contiguous_format), initial_state
    o = torch.empty_like(v, memory_format=torch.contiguous_format)
    # A tensor that is not given is not read: any other stands for it.
    states = o if initial_state is None else initial_state
    indices = o if ssm_state_indices is None else ssm_state_indices
    block_v = min(BLOCK_V, triton.next_power_of_2(value_size))
    launch(
        recurrent_kernel,
        # In this order, since a GPU takes at most 65535 programs in the second dimension.
        (num_seqs * num_value_heads, triton.cdiv(value_size, block_v)),
        o,
        q,
        k,
        v,
        g,
        beta,
        states,
        o if cu_seqlens is None else cu_seqlens,
        indices,
        o if num_accepted_tokens is None else num_accepted_tokens,
        key_size**-0.5 if scale is None else scale,
        num_tokens,
        len(states),
        indices.shape[1] if indices.dim() == 2 else 1,
        indices.stride(0),
        *(tensor.stride(1) for tensor in (q, k, v, g, beta)),
        0 if initial_state is None else initial_state.stride(0),
        HV=num_value_heads,
        GROUP=num_value_heads // num_heads,
        K=key_size,
        V=value_size,
        HAS_STATES=initial_state is not None,
        HAS_STARTS=cu_seqlens is not None,
        HAS_INDICES=ssm_state_indices is not None,
        SPECULATIVE=num_accepted_tokens is not None,
        NORMALIZE=use_qk_l2norm_in_kernel,
        BLOCK_K=triton.next_power_of_2(key_size),
        BLOCK_V=block_v,
        num_warps=4,
        work=lambda: _work(q, v, initial_state, num_seqs, num_accepted_tokens is not None),
    )
    return o, initial_state


def _check_states(
    states: torch.Tensor | None,
    num_seqs: int,
    indices: torch.Tensor | None,
    q: torch.Tensor,
    v: torch.Tensor,
) -> None:
    if states is None:
        if indices is not None:
            raise ValueError("ssm_state_indices are slots of initial_state, which is None")
        return
    expected = (*v.shape[2:], q.shape[3])
    if states.dim() != 4 or states.shape[1:] != expected or states.dtype != torch.float32:
        raise ValueError(
            f"initial_state is {states.dtype} {list(states.shape)}: make it torch.float32 "
            f"[num_slots, {', '.join(map(str, expected))}]"
        )
    if not is_dense(states, first_dimension=1):
        raise ValueError(
            f"initial_state of strides {states.stride()}: each slot must be contiguous"
        )
    if indices is None and len(states) < num_seqs:
        raise ValueError(
            f"{len(states)} states for {num_seqs} sequences: give one for each, or "
            "ssm_state_indices"
        )


def _work(
    q: torch.Tensor, v: torch.Tensor, states: torch.Tensor | None, num_seqs: int, speculative: bool
) -> Work:
    """Returns the operations and bytes of one launch, for sim's cost model: each state is read
    once, and written once for the sequence or, with drafts, for each of its tokens."""
    numbers = 2 * q.numel() + 2 * v.numel()
    state = v.shape[2] * v.shape[3] * q.shape[3]
    moved = 0 if states is None else num_seqs + (v.shape[1] if speculative else num_seqs)
    return Work(
        flops=8.0 * v.numel() * q.shape[3],
        bytes=numbers * q.element_size() + 4 * moved * state,
        tensor_cores=False,
    )
