"""The convolution kernel: causal, depthwise, over sequences of any lengths.

The state of a sequence, its last WIDTH - 1 inputs, is read and overwritten by one program alone,
that of the sequence's first chunk: only there do the taps reach back before the sequence. All
other inputs it takes from `x`, which nobody writes. So the order in which programs run is of no
importance.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # Whatever these hold, and wherever a slice of a batch starts, it is the same compiled kernel.
    do_not_specialize=["num_slots"],
    do_not_specialize_on_alignment=[
        "query_start_loc",
        "cache_indices",
        "has_initial_state",
        "batch_of_chunk",
        "chunk_offset",
    ],
)
def causal_conv1d_kernel(
    output,  # [num_tokens, dim], contiguous
    x,  # [num_tokens, dim], channels contiguous
    weight,  # [dim, WIDTH], contiguous
    bias,  # [dim]; not read without HAS_BIAS
    conv_states,  # [num_slots, dim, WIDTH - 1], any strides
    query_start_loc,  # [num_seqs + 1] int32
    cache_indices,  # [num_seqs] int32
    has_initial_state,  # [num_seqs] bool
    batch_of_chunk,  # [num_chunks] int32; below 0 where a table is longer than its chunks
    chunk_offset,  # [num_chunks] int32
    num_slots,
    dim,
    x_stride,
    slot_stride,
    channel_stride,
    tap_stride,
    HAS_BIAS: tl.constexpr,
    SILU: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,  # at least 3, so that only first chunks look back before their sequence
    BLOCK_DIM: tl.constexpr,
):
    """One program: one chunk of one sequence, BLOCK_DIM channels; nothing if that is below 0."""
    STATE: tl.constexpr = WIDTH - 1
    chunk = tl.program_id(0)
    sequence = tl.load(batch_of_chunk + chunk)
    if sequence < 0:
        return
    offset = tl.load(chunk_offset + chunk)
    first_row = tl.load(query_start_loc + sequence)
    length = tl.load(query_start_loc + sequence + 1) - first_row
    slot = tl.load(cache_indices + sequence).to(tl.int64)

    channel = tl.program_id(1) * BLOCK_DIM + tl.arange(0, BLOCK_DIM)
    exists = channel < dim
    row = (first_row + offset).to(tl.int64)
    num_rows = tl.minimum(length - offset, CHUNK)
    output += row * dim + channel
    if (slot < 0) | (slot >= num_slots):
        for _ in range(num_rows):
            tl.store(output, tl.zeros([BLOCK_DIM], output.dtype.element_ty), mask=exists)
            output += dim
        return

    # The inputs so many tokens back. A narrow kernel doesn't use them all.
    x += row * x_stride + channel
    state = conv_states + slot * slot_stride + channel.to(tl.int64) * channel_stride
    back1 = tl.zeros([BLOCK_DIM], tl.float32)
    back2 = tl.zeros([BLOCK_DIM], tl.float32)
    back3 = tl.zeros([BLOCK_DIM], tl.float32)
    if offset == 0:
        known = exists & (tl.load(has_initial_state + sequence) != 0)
        back1 = tl.load(state + (STATE - 1) * tap_stride, mask=known, other=0.0).to(tl.float32)
        if STATE > 1:
            back2 = tl.load(state + (STATE - 2) * tap_stride, mask=known, other=0.0).to(tl.float32)
        if STATE > 2:
            back3 = tl.load(state, mask=known, other=0.0).to(tl.float32)
    else:
        back1 = tl.load(x - x_stride, mask=exists, other=0.0).to(tl.float32)
        if STATE > 1:
            back2 = tl.load(x - 2 * x_stride, mask=exists, other=0.0).to(tl.float32)
        if STATE > 2:
            back3 = tl.load(x - 3 * x_stride, mask=exists, other=0.0).to(tl.float32)

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

    current = x
    for _ in range(num_rows):
        value = tl.load(current, mask=exists, other=0.0).to(tl.float32)
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
        current += x_stride
        output += dim

    if offset == 0:
        if length > CHUNK:
            end = x + length.to(tl.int64) * x_stride
            back1 = tl.load(end - x_stride, mask=exists, other=0.0).to(tl.float32)
            back2 = tl.load(end - 2 * x_stride, mask=exists, other=0.0).to(tl.float32)
            back3 = tl.load(end - 3 * x_stride, mask=exists, other=0.0).to(tl.float32)
        # Several threads may hold the same channel: none writes before all have read.
        tl.debug_barrier()
        kept = conv_states.dtype.element_ty
        tl.store(state + (STATE - 1) * tap_stride, back1.to(kept), mask=exists)
        if STATE > 1:
            tl.store(state + (STATE - 2) * tap_stride, back2.to(kept), mask=exists)
        if STATE > 2:
            tl.store(state, back3.to(kept), mask=exists)
