"""Makes the table of chunks that the convolution's programs work on, for all layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..model.conv_chunks import prepare_conv_metadata

Layer = Callable[..., torch.Tensor]
"""A layer, called as layer(tokens, metadata) with the step's ConvMetadata; it returns the convolved
tokens."""


def convolve_layers(
    layers: Sequence[Layer],
    tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    query_start_loc_cpu: torch.Tensor,
) -> torch.Tensor:
    """Returns the tokens after all layers, each called as `layer(tokens, metadata)` (vLLM #41429).

    `query_start_loc` and `query_start_loc_cpu` are [num_seqs + 1] int32, on the device and on the
    host: where in `tokens` each sequence starts, then the end of the last one.
    """
    metadata = prepare_conv_metadata(query_start_loc_cpu, tokens.device)
    for layer in layers:
        tokens = layer(tokens, metadata)
    return tokens
