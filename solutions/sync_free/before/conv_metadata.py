"""Makes the table of chunks that the convolution's programs work on, for all layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..model.conv_chunks import CHUNK_TOKENS, ConvMetadata

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
    for layer in layers:
        tokens = layer(tokens, read_conv_metadata(query_start_loc))
    return tokens


def read_conv_metadata(query_start_loc: torch.Tensor) -> ConvMetadata:
    """Returns the metadata of sequences that start at `query_start_loc`, [num_seqs + 1] int32 on
    the device. Takes three host syncs: `query_start_loc` is downloaded, and two tables are
    uploaded."""
    lengths = query_start_loc.diff().tolist()
    batch_of_chunk, chunk_offset = [], []
    for sequence, length in enumerate(lengths):
        for offset in range(0, length, CHUNK_TOKENS):
            batch_of_chunk.append(sequence)
            chunk_offset.append(offset)
    device = query_start_loc.device
    return ConvMetadata(
        torch.tensor(batch_of_chunk, dtype=torch.int32, device=device),
        torch.tensor(chunk_offset, dtype=torch.int32, device=device),
        num_seqs=len(lengths),
        num_tokens=sum(lengths),
    )
