"""The short convolution's decode step: a token of each sequence, or the few that were drafted."""

from __future__ import annotations

import torch
import triton

from debubble.accelerator import Work, launch
from solutions.sync_free.sites.causal_conv1d import BLOCK_DIM, check_shapes

from ..rule.state_slots import check_state_slots
from .conv_update_kernel import conv_update_kernel


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
    """[num_tokens, dim] like `x`: what `causal_conv1d_fn` computes where every sequence has a
    state already, without metadata, in one launch (vLLM #38361).

    x                    [num_tokens, dim], channels contiguous; bfloat16, float16 or float32
    weight               [dim, width], contiguous, width 2 to 4
    bias                 [dim], or None
    conv_states          [num_slots, dim, width - 1] of x's dtype, best with channels contiguous
    activation           "silu" or None
    state_indices        [num_seqs] int32: the slot of each sequence, read and overwritten; or
                         [num_seqs, 1 + drafts]: its slots, a token each
    query_start_loc      [num_seqs + 1] int32; None if each sequence has one token
    num_accepted_tokens  [num_seqs] int32, with a row of slots for each sequence: sequence n goes on
                         from slot state_indices[n, num_accepted_tokens[n] - 1], and leaves the
                         state behind its token j in slot state_indices[n, j]

    A sequence whose slot is < 0 or beyond the slots, or whose number of accepted tokens has no
    column, gives zeros and writes nothing. So do tokens behind the last sequence. A token whose own
    slot is such a one leaves no state. A sequence without tokens leaves its slots alone.

    ValueError for shapes, strides and types that don't fit, before anything is launched.
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
        # What is not given is not read either.
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
    """Each input read and each output written once; a state read for each sequence, and written
    for it or for each of its tokens."""
    num_tokens, dim = x.shape
    states = num_seqs + (num_tokens if speculative else num_seqs)
    numbers = 2 * num_tokens * dim + states * dim * (width - 1)
    flops = 2.0 * num_tokens * dim * width
    return Work(flops=flops, bytes=numbers * x.element_size(), tensor_cores=False)
