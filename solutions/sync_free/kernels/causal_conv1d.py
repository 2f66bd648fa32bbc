"""Causal depthwise convolution over sequences of any lengths, with a state for each of them."""

from __future__ import annotations

import torch
import triton

from debubble.accelerator import Work, launch

from ..packed.conv_metadata import CHUNK_TOKENS, ConvMetadata
from .causal_conv1d_kernel import causal_conv1d_kernel

BLOCK_DIM = 256
"""Channels of one program: in bfloat16, what one warp loads at once."""


def causal_conv1d_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor,
    activation: str | None,
    metadata: ConvMetadata | None = None,
) -> torch.Tensor:
    """[num_tokens, dim] like `x`: each channel convolved with the `width` inputs that end at the
    token, then `activation`, "silu" or None (vLLM #41429). Sums are in float32.

    Writes the last width - 1 inputs of each sequence to conv_states[cache_indices[sequence]], the
    newest one last; a sequence that has an initial state goes on from what is there, another one
    from zeros. A sequence without tokens leaves its slot alone. So does one whose cache index is
    PAD_SLOT or beyond the slots: its outputs are 0.

    x                   [num_tokens, dim], channels contiguous; bfloat16, float16 or float32
    weight              [dim, width], contiguous, width 2 to 4
    bias                [dim], or None
    conv_states         [num_slots, dim, width - 1] of x's dtype, best with channels contiguous
    query_start_loc     [num_seqs + 1] int32
    cache_indices       [num_seqs] int32
    has_initial_state   [num_seqs] bool
    metadata            of `prepare_conv_metadata` in this step: not optional

    Raises ValueError before anything is launched, also when the metadata is of another batch.
    """
    width = weight.shape[-1]
    check_shapes(x, weight, bias, conv_states, activation)
    _check_batch(query_start_loc, cache_indices, has_initial_state)
    metadata = _checked_metadata(metadata, x.shape[0], len(cache_indices), len(conv_states))
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
    """ValueError unless inputs, weights and states are of one shape and layout."""
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
    if conv_states.dtype != x.dtype:
        raise ValueError(
            f"conv_states of {conv_states.dtype} for inputs of {x.dtype}: use one type"
        )
    if activation not in (None, "silu"):
        raise ValueError(f"activation {activation!r}: use 'silu' or None")


def _check_batch(
    query_start_loc: torch.Tensor, cache_indices: torch.Tensor, has_initial_state: torch.Tensor
) -> None:
    """Shapes and types, which the host knows; never values, which it would have to ask for."""
    num_seqs = cache_indices.numel()
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


def _checked_metadata(
    metadata: ConvMetadata | None, num_tokens: int, num_seqs: int, num_slots: int
) -> ConvMetadata:
    if metadata is None:
        raise ValueError("metadata is None: give each layer what prepare_conv_metadata returned")
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
    return metadata


def _work(x: torch.Tensor, width: int, num_seqs: int) -> Work:
    """Each input read and each output written once, each sequence's state both."""
    num_tokens, dim = x.shape
    numbers = 2 * num_tokens * dim + 2 * num_seqs * dim * (width - 1)
    flops = 2.0 * num_tokens * dim * width
    return Work(flops=flops, bytes=numbers * x.element_size(), tensor_cores=False)
