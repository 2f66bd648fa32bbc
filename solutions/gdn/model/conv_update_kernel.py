"""The convolution of a step in which each sequence has a token, or a few: one program carries some
channels through all of them."""

from __future__ import annotations

import triton
import triton.language as tl

from ..rule.slot_stages import first_slot, slot_behind, store_zeros


@triton.jit(
    # Whatever a step holds, and wherever an upload has it, it is the same compiled kernel.
    do_not_specialize=["num_tokens", "num_slots", "num_columns", "index_stride"],
    do_not_specialize_on_alignment=["state_indices", "query_start_loc", "num_accepted_tokens"],
)
def conv_update_kernel(
    output,  # [num_tokens, dim], contiguous
    x,  # [num_tokens, dim], channels contiguous
    weight,  # [dim, WIDTH], contiguous
    bias,  # [dim]; not read without HAS_BIAS
    conv_states,  # [num_slots, dim, WIDTH - 1], any strides
    state_indices,  # [num_seqs, num_columns] int32
    query_start_loc,  # [num_seqs + 1] int32; not read without HAS_STARTS: one token each
    num_accepted_tokens,  # [num_seqs] int32; read only if SPECULATIVE
    num_tokens,
    num_slots,
    num_columns,
    index_stride,
    dim,
    x_stride,
    slot_stride,
    channel_stride,
    tap_stride,
    HAS_BIAS: tl.constexpr,
    HAS_STARTS: tl.constexpr,
    SPECULATIVE: tl.constexpr,  # each token leaves the state behind it in a slot of its own
    SILU: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """One program: BLOCK_DIM channels of one sequence."""
    STATE: tl.constexpr = WIDTH - 1
    sequence = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK_DIM + tl.arange(0, BLOCK_DIM)
    exists = channel < dim
    output += channel
    if HAS_STARTS:
        first = tl.load(query_start_loc + sequence).to(tl.int64)
        end = tl.load(query_start_loc + sequence + 1)
        length = end - first.to(tl.int32)
        if sequence == tl.num_programs(0) - 1:
            # The tokens behind the last sequence are nobody's: a batch may be padded.
            store_zeros(output + end.to(tl.int64) * dim, dim, num_tokens - end, exists)
    else:
        first = sequence
        length = 1
    output += first * dim

    state_indices += sequence * index_stride
    slot = first_slot(state_indices, num_accepted_tokens, sequence, num_columns, SPECULATIVE)
    if (slot < 0) | (slot >= num_slots):
        store_zeros(output, dim, length, exists)
        return

    # The inputs so many tokens back. A narrow kernel doesn't use them all.
    conv_states += channel.to(tl.int64) * channel_stride
    state = conv_states + slot * slot_stride
    back1 = tl.load(state + (STATE - 1) * tap_stride, mask=exists, other=0.0).to(tl.float32)
    back2 = tl.zeros([BLOCK_DIM], tl.float32)
    back3 = tl.zeros([BLOCK_DIM], tl.float32)
    if STATE > 1:
        back2 = tl.load(state + (STATE - 2) * tap_stride, mask=exists, other=0.0).to(tl.float32)
    if STATE > 2:
        back3 = tl.load(state, mask=exists, other=0.0).to(tl.float32)

    weight += channel * WIDTH
    weight0 = tl.load(weight + STATE, mask=exists, other=0.0).to(tl.float32)
    weight1 = tl.load(weight + STATE - 1, mask=exists, other=0.0).to(tl.float32)
    if STATE > 1:
        weight2 = tl.load(weight + STATE - 2, mask=exists, other=0.0).to(tl.float32)
    if STATE > 2:
        weight3 = tl.load(weight, mask=exists, other=0.0).to(tl.float32)
    if HAS_BIAS:
        first_sum = tl.load(bias + channel, mask=exists, other=0.0).to(tl.float32)
    else:
        first_sum = tl.zeros([BLOCK_DIM], tl.float32)

    x += first * x_stride + channel
    for token in range(length):
        value = tl.load(x, mask=exists, other=0.0).to(tl.float32)
        result = first_sum + value * weight0 + back1 * weight1
        if STATE > 1:
            result += back2 * weight2
        if STATE > 2:
            result += back3 * weight3
        if SILU:
            result = result / (1.0 + tl.exp(-result))
        tl.store(output, result.to(output.dtype.element_ty), mask=exists)
        back3 = back2
        back2 = back1
        back1 = value
        if SPECULATIVE:
            slot = slot_behind(state_indices, token, num_columns)
        # Several threads may hold the same channel: none writes before all have read.
        tl.debug_barrier()
        # Without drafts the last token's state overwrites those of the others, in the same slot.
        kept = exists & (slot >= 0) & (slot < num_slots)
        state = conv_states + slot * slot_stride
        dtype = conv_states.dtype.element_ty
        tl.store(state + (STATE - 1) * tap_stride, back1.to(dtype), mask=kept)
        if STATE > 1:
            tl.store(state + (STATE - 2) * tap_stride, back2.to(dtype), mask=kept)
        if STATE > 2:
            tl.store(state, back3.to(dtype), mask=kept)
        output += dim
        x += x_stride
