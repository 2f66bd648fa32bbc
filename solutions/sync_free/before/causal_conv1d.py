"""The convolution as it was: it plans its own programs, from lengths that it reads back."""

from __future__ import annotations

import torch

from ..kernels import causal_conv1d
from ..packed.conv_metadata import ConvMetadata
from ..parts.before.conv_metadata import read_conv_metadata


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
    """[num_tokens, dim] like `x`. Three host syncs, whatever metadata it is handed."""
    return causal_conv1d.causal_conv1d_fn(
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        cache_indices,
        has_initial_state,
        activation,
        read_conv_metadata(query_start_loc),
    )
