"""The short convolution's decode step, for one token of each sequence or for its few drafted
tokens."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.asked import ASKED
from solutions.common.one_device import check_one_device
from solutions.sync_free.kernels.causal_conv1d import BLOCK_DIM, check_shapes

from ..rule.state_slots import (
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
    SPECULATIVE: tl.constexpr,  # each token writes the state after it to its own slot
    SILU: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """Convolves BLOCK_DIM channels of one sequence's tokens, and updates the sequence's state."""
    STATE: tl.constexpr = WIDTH - 1
    sequence = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK_DIM + tl.arange(0, BLOCK_DIM)
    exists = channel < dim
    output += channel
    if HAS_STARTS:
        first, end = tokens_of(query_start_loc, sequence, num_tokens)
        length = end - first
        if sequence == tl.num_programs(0) - 1:
            # The tokens after the last sequence belong to no sequence: a batch may be padded.
            store_zeros(output + end.to(tl.int64) * dim, dim, num_tokens - end, exists)
    else:
        first = sequence
        length = 1
    first = first.to(tl.int64)
    output += first * dim

    state_indices += sequence * index_stride
    slot = first_slot(state_indices, num_accepted_tokens, sequence, num_columns, SPECULATIVE)
    if (slot < 0) | (slot >= num_slots):
        store_zeros(output, dim, length, exists)
        return
    if ASKED:
        is_first = (tl.program_id(1) == 0) & (length > 0)
        expect_own(
            is_first, slot, state_indices, sequence, index_stride, num_columns, query_start_loc,
            tl.num_programs(0), HAS_STARTS,
        )  # fmt: skip

    # The inputs one, two and three tokens back. A narrow kernel doesn't use all of them.
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
            if ASKED:
                expect_own(
                    is_first & (slot >= 0), slot, state_indices, sequence, index_stride,
                    num_columns, query_start_loc, tl.num_programs(0), HAS_STARTS,
                )  # fmt: skip
        # Several threads may hold the same channel: no thread writes before all have read.
        tl.debug_barrier()
        # Without drafts each token's state overwrites the one before, in the same slot.
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


def causal_conv1d_update(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    activation: str | None,
    state_indices: torch.Tensor,
    query_start_loc: torch.Tensor | None = None,
    num_accepted_tokens: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes what `causal_conv1d_fn` does if every sequence has a state already, without metadata
    and in one launch (vLLM #38361). Returns [num_tokens, dim] of the dtype of `x`.

    x                    [num_tokens, dim], channels contiguous; bfloat16, float16 or float32
    weight               [dim, width], contiguous, width 2 to 4
    bias                 [dim], or None
    conv_states          [num_slots, dim, width - 1] of x's dtype, best with channels contiguous
    activation           "silu" or None
    state_indices        [num_seqs] int32: the slot of each sequence, read and overwritten; or
                         [num_seqs, 1 + drafts]: its slots, one for each token
    query_start_loc      [num_seqs + 1] int32; None if each sequence has one token
    num_accepted_tokens  [num_seqs] int32, only with a row of slots for each sequence: sequence n
                         starts from slot state_indices[n, num_accepted_tokens[n] - 1], and writes
                         the state after its token j to slot state_indices[n, j]

    A sequence gives zeros and writes nothing if its slot is < 0 or beyond the slots, or if there is
    no column for its number of accepted tokens. Tokens after the last sequence give zeros too. A
    token whose own slot is < 0 or beyond the slots writes no state. A sequence without tokens
    leaves its slots alone. If `query_start_loc` ends a sequence after the last token, it ends at
    that token. No sequence may have a slot that another sequence with tokens writes: on sim that is
    a RuntimeError.

    Raises ValueError, before any launch, for shapes, strides and dtypes that don't fit.
    """
    check_shapes(x, weight, bias, conv_states, activation)
    num_tokens, dim = x.shape
    num_seqs = num_tokens if query_start_loc is None else query_start_loc.numel() - 1
    check_state_slots(
        num_seqs,
        {"query_start_loc": query_start_loc},
        {"state_indices": state_indices},
        num_accepted_tokens,
    )
    tensors = {"x": x, "weight": weight, "bias": bias, "conv_states": conv_states}
    of_batch = {"state_indices": state_indices, "query_start_loc": query_start_loc}
    check_one_device(tensors | of_batch | {"num_accepted_tokens": num_accepted_tokens})
    if not num_seqs:
        return torch.zeros(num_tokens, dim, dtype=x.dtype, device=x.device)
    output = torch.empty(num_tokens, dim, dtype=x.dtype, device=x.device)
    launch(
        conv_update_kernel,
        (num_seqs, triton.cdiv(dim, BLOCK_DIM)),
        output,
        x,
        weight,
        weight if bias is None else bias,
        conv_states,
        state_indices,
        # A tensor that is not given is not read: any other stands for it.
        state_indices if query_start_loc is None else query_start_loc,
        state_indices if num_accepted_tokens is None else num_accepted_tokens,
        num_tokens,
        len(conv_states),
        state_indices.shape[1] if state_indices.dim() == 2 else 1,
        state_indices.stride(0),
        dim,
        x.stride(0),
        *conv_states.stride(),
        HAS_BIAS=bias is not None,
        HAS_STARTS=query_start_loc is not None,
        SPECULATIVE=num_accepted_tokens is not None,
        SILU=activation == "silu",
        WIDTH=weight.shape[1],
        BLOCK_DIM=BLOCK_DIM,
        num_warps=4,
        work=lambda: _work(x, weight.shape[1], num_seqs, num_accepted_tokens is not None),
    )
    return output


def _work(x: torch.Tensor, width: int, num_seqs: int, speculative: bool) -> Work:
    """Returns the operations and bytes of one launch, for sim's cost model: each input is read once
    and each output written once. A state is read for each sequence, and written for the sequence
    or, with drafts, for each token."""
    num_tokens, dim = x.shape
    states = num_seqs + (num_tokens if speculative else num_seqs)
    numbers = 2 * num_tokens * dim + states * dim * (width - 1)
    flops = 2.0 * num_tokens * dim * width
    return Work(flops=flops, bytes=numbers * x.element_size(), tensor_cores=False)
