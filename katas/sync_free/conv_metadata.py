"""Planned once, for all layers (chapter 02, medium, 25 minutes).

A convolution over sequences of any lengths runs in chunks of 8 tokens. Each program of its kernel
must know the sequence of its chunk, and where in that sequence the chunk begins. The function below
works. But it computes this metadata again for every layer, from lengths that it reads from the
device, and then uploads it in two copies.

Plan once a step, from the starts that the host has in `query_start_loc_cpu`. Upload the metadata
once, without a wait, pinned if `current().pin_memory` is true, and give it to all layers. Kernels
read by address: both tensors must be contiguous.

You need to know how a step's sequences lie side by side, with their starts in one tensor.

Edit this file, then run

    pytest katas/sync_free/test_conv_metadata.py

Stuck?         debubble hint conv_metadata
Start afresh?  debubble reset conv_metadata
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from katas.sync_free.given import CHUNK_TOKENS, ConvMetadata, Layer


# Yours to edit, from here on.
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
