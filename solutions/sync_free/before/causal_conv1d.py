"""The convolution of a mamba layer: causal, depthwise, over sequences of any lengths."""

from __future__ import annotations

import torch

from ..kernels.causal_conv1d import check_batch, check_shapes, convolve
from ..model.conv_chunks import ConvMetadata
from .conv_metadata import read_conv_metadata


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
    """Convolves each channel with the `width` inputs that end at the token, then applies
    `activation`, "silu" or None (vLLM #41429). Returns [num_tokens, dim] of the dtype of `x`; sums
    are in float32.

    Writes the last width - 1 inputs of each sequence to conv_states[cache_indices[sequence]], the
    newest one last. A sequence with an initial state starts from the inputs there, any other
    sequence from zeros. A sequence without tokens leaves its slot alone. So does a sequence whose
    cache index is PAD_SLOT or beyond the slots; its outputs are 0.

    x                   [num_tokens, dim], channels contiguous; bfloat16, float16 or float32
    weight              [dim, width], contiguous, width 2 to 4
    bias                [dim], or None
    conv_states         [num_slots, dim, width - 1] of x's dtype, best with channels contiguous
    query_start_loc     [num_seqs + 1] int32
    cache_indices       [num_seqs] int32
    has_initial_state   [num_seqs] bool
    metadata            not used here: each layer made its own before the change

    Raises ValueError before the convolution is launched.
    """
    check_shapes(x, weight, bias, conv_states, activation)
    check_batch(query_start_loc, cache_indices, has_initial_state)
    metadata = read_conv_metadata(query_start_loc)
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
