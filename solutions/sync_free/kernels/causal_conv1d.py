"""Causal depthwise convolution over sequences of any lengths, with a state for each sequence.

The state of a sequence is its last WIDTH - 1 inputs. Only the program of the sequence's first chunk
reads and overwrites it, since only there do the taps reach back before the sequence. All other
inputs come from `x`, which no program writes. So the order in which programs run doesn't matter.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.asked import ASKED
from solutions.common.one_device import check_one_device

from ..model.conv_chunks import CHUNK_TOKENS, ConvMetadata

BLOCK_DIM = 256
"""Number of channels of one program: in bfloat16, as many as one warp loads at once."""


@triton.jit(
    # One compiled kernel serves all of these values, and slices of a batch that start at any
    # address.
    do_not_specialize=["num_tokens", "num_slots"],
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
    num_tokens,
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
    """Convolves BLOCK_DIM channels of one chunk of a sequence, and writes its state if the chunk is
    the first. Does nothing if the sequence is below 0."""
    STATE: tl.constexpr = WIDTH - 1
    chunk = tl.program_id(0)
    sequence = tl.load(batch_of_chunk + chunk)
    if sequence < 0:
        return
    offset = tl.load(chunk_offset + chunk)
    # The host can't see these numbers: if they are wrong, nothing outside of `x` is touched.
    first_row = tl.minimum(tl.maximum(tl.load(query_start_loc + sequence), 0), num_tokens)
    end_row = tl.minimum(tl.load(query_start_loc + sequence + 1), num_tokens)
    length = end_row - first_row
    if ASKED:
        behind = chunk + 1 < tl.num_programs(0)
        sequence_behind = tl.load(batch_of_chunk + chunk + 1, mask=behind, other=-1)
        behind &= sequence_behind >= 0
        row_behind = tl.load(query_start_loc + sequence_behind, mask=behind, other=0)
        row_behind += tl.load(chunk_offset + chunk + 1, mask=behind, other=0)
        end_of_chunk = first_row + offset + tl.minimum(length - offset, CHUNK)
        tl.device_assert(
            (length > offset)
            & (end_of_chunk == tl.where(behind, row_behind, end_row))  # A step may be padded.
            & ((chunk > 0) | (first_row + offset == tl.load(query_start_loc))),
            "metadata is of another batch: prepare it from this batch's query_start_loc",
        )
    if length <= offset:
        return
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

    # The inputs one, two and three tokens back. A narrow kernel doesn't use all of them.
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
        # Several threads may hold the same channel: no thread writes before all have read.
        tl.debug_barrier()
        kept = conv_states.dtype.element_ty
        tl.store(state + (STATE - 1) * tap_stride, back1.to(kept), mask=exists)
        if STATE > 1:
            tl.store(state + (STATE - 2) * tap_stride, back2.to(kept), mask=exists)
        if STATE > 2:
            tl.store(state, back3.to(kept), mask=exists)


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor,
    activation: str | None,
    metadata: ConvMetadata,
) -> torch.Tensor:
    """Returns the convolved `x`, [num_tokens, dim], by one launch. The arguments are those of
    `causal_conv1d_fn`.

    Raises ValueError for metadata of another batch. The caller has checked everything else.
    """
    width = weight.shape[-1]
    _check_metadata(metadata, x.shape[0], len(cache_indices), len(conv_states))
    tensors = {"x": x, "weight": weight, "bias": bias, "conv_states": conv_states}
    of_batch = {"query_start_loc": query_start_loc, "cache_indices": cache_indices}
    check_one_device(tensors | of_batch | {"has_initial_state": has_initial_state})
    num_tokens, dim = x.shape
    output = torch.empty(num_tokens, dim, dtype=x.dtype, device=x.device)
    launch(
        causal_conv1d_kernel,
        (len(metadata.batch_of_chunk), triton.cdiv(dim, BLOCK_DIM)),
        output,
        x,
        weight,
        weight if bias is None else bias,
        conv_states,
        query_start_loc,
        cache_indices,
        has_initial_state,
        metadata.batch_of_chunk,
        metadata.chunk_offset,
        num_tokens,
        len(conv_states),
        dim,
        x.stride(0),
        *conv_states.stride(),
        HAS_BIAS=bias is not None,
        SILU=activation == "silu",
        WIDTH=width,
        CHUNK=CHUNK_TOKENS,
        BLOCK_DIM=BLOCK_DIM,
        num_warps=4,
        work=lambda: _work(x, width, metadata.num_seqs),
    )
    return output


def check_shapes(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    activation: str | None,
) -> None:
    """Raises ValueError unless inputs, weight, bias and states have shapes, dtypes and layouts that
    fit together, and for an unknown activation."""
    if x.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise ValueError(f"inputs of {x.dtype}: use bfloat16, float16 or float32")
    if x.dim() != 2 or (x.numel() and x.shape[1] > 1 and x.stride(1) != 1):
        raise ValueError(
            f"x of shape {list(x.shape)} and strides {x.stride()}: make it [num_tokens, dim], with "
            "the channels of a token side by side"
        )
    dim = x.shape[1]
    if weight.dim() != 2 or weight.shape[0] != dim or not 2 <= weight.shape[1] <= 4:
        raise ValueError(
            f"a weight of shape {list(weight.shape)} for {dim} channels: make it [{dim}, width], "
            "width 2 to 4"
        )
    if not weight.is_contiguous():
        raise ValueError(f"weight strides {weight.stride()}: the weight must be contiguous")
    if bias is not None and (bias.shape != (dim,) or not bias.is_contiguous()):
        raise ValueError(
            f"a bias of shape {list(bias.shape)} for {dim} channels: make it [{dim}], contiguous"
        )
    state = (dim, weight.shape[1] - 1)
    if conv_states.dim() != 3 or conv_states.shape[1:] != state:
        raise ValueError(
            f"conv_states of shape {list(conv_states.shape)}: make them "
            f"[num_slots, {state[0]}, {state[1]}]"
        )
    if len(conv_states) > 1 and not conv_states.stride(0):
        raise ValueError(
            f"conv_states of strides {conv_states.stride()}: each slot needs memory of its own"
        )
    if conv_states.dtype != x.dtype:
        raise ValueError(
            f"conv_states of {conv_states.dtype} for inputs of {x.dtype}: use one type"
        )
    if activation not in (None, "silu"):
        raise ValueError(f"activation {activation!r}: use 'silu' or None")


def check_batch(
    query_start_loc: torch.Tensor, cache_indices: torch.Tensor, has_initial_state: torch.Tensor
) -> None:
    """Raises ValueError unless `query_start_loc` is int32 [num_seqs + 1], `cache_indices` int32
    [num_seqs] and `has_initial_state` bool [num_seqs].

    The host knows shapes and dtypes. To check values it would have to read them from the device,
    and wait.
    """
    if cache_indices.dim() != 1:
        raise ValueError(
            f"cache_indices is of shape {list(cache_indices.shape)}: make it [num_seqs]"
        )
    num_seqs = len(cache_indices)
    for name, tensor, size, dtype in (
        ("query_start_loc", query_start_loc, num_seqs + 1, torch.int32),
        ("cache_indices", cache_indices, num_seqs, torch.int32),
        ("has_initial_state", has_initial_state, num_seqs, torch.bool),
    ):
        if tensor.shape != (size,) or tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: for {num_seqs} sequences make it "
                f"{dtype} [{size}], contiguous"
            )


def _check_metadata(metadata: ConvMetadata, num_tokens: int, num_seqs: int, num_slots: int) -> None:
    """Raises ValueError for metadata of a batch with another number of tokens or sequences, or with
    a slot that the states don't have."""
    if metadata.num_tokens != num_tokens:
        raise ValueError(
            f"metadata of {metadata.num_tokens} tokens, and x has {num_tokens}: prepare it from "
            "this batch's query_start_loc, which ends at the number of tokens"
        )
    if metadata.num_seqs != num_seqs:
        raise ValueError(
            f"metadata of {metadata.num_seqs} sequences for a batch of {num_seqs}: prepare it from "
            "this batch's query_start_loc"
        )
    if metadata.highest_slot >= num_slots:
        raise ValueError(
            f"cache index {metadata.highest_slot}: these conv_states have {num_slots} slots"
        )


def _work(x: torch.Tensor, width: int, num_seqs: int) -> Work:
    """Returns the operations and bytes of one launch, for sim's cost model: inputs are read once,
    outputs written once, and each sequence's state is both read and written."""
    num_tokens, dim = x.shape
    numbers = 2 * num_tokens * dim + 2 * num_seqs * dim * (width - 1)
    flops = 2.0 * num_tokens * dim * width
    return Work(flops=flops, bytes=numbers * x.element_size(), tensor_cores=False)
