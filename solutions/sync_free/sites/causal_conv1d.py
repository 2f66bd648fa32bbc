"""The convolution of a mamba layer: causal, depthwise, over sequences of any lengths."""

from __future__ import annotations

import torch

from ..kernels.causal_conv1d import check_batch, check_shapes, convolve
from ..packed.conv_metadata import ConvMetadata


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
    metadata            of `prepare_conv_metadata` in this step; as it was, each layer made its own

    Raises ValueError before anything is launched, also when the metadata is of another batch. Of
    as many sequences and tokens it may be of another one all the same: on sim that is a
    RuntimeError, on a GPU tokens without a chunk have no output.
    """
    check_shapes(x, weight, bias, conv_states, activation)
    check_batch(query_start_loc, cache_indices, has_initial_state)
    if metadata is None:
        raise ValueError("metadata is None: give each layer what prepare_conv_metadata returned")
    return convolve(
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        cache_indices,
        has_initial_state,
        activation,
        metadata,
    )
