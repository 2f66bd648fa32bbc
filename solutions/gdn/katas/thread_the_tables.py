"""Ops of all layers that share one chunk table: it is made once a step, and passed on.

The system's ops are kernels, and strides would hide how the table is passed on. So these ops
compute the same sums with PyTorch's operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from solutions.common.h2d import async_tensor_h2d

from .. import chunk_tables
from ..rule.chunks import FLA_CHUNK_SIZE


def decays_of_layers(
    gates: Sequence[torch.Tensor], cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor
) -> list[torch.Tensor]:
    """Returns `decay_until_end` of each layer's gates, [num_tokens] float32 (vLLM #38361).

    `cu_seqlens` and `cu_seqlens_cpu` are [num_seqs + 1] int32, on the device and on the host: where
    each sequence starts, then the end of the last one.
    """
    rows = chunk_tables.prepare_chunk_indices(cu_seqlens_cpu)
    chunk_indices = async_tensor_h2d(rows, cu_seqlens.device)
    return [decay_until_end(g, cu_seqlens, chunk_indices) for g in gates]


def decay_until_end(
    g: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] float32: the sum of the gates after each token, up to the end of its
    chunk. This is how much of the token's write decays until then.

    `chunk_indices` [NT, 2] int32 on the device has the rows for these cu_seqlens and chunks of 64
    tokens; None makes them here.
    """
    if chunk_indices is None:
        chunk_indices = prepare_chunk_indices(cu_seqlens)
    decay = chunk_local_cumsum(g, cu_seqlens, chunk_indices)
    return last_of_chunk(decay, cu_seqlens, chunk_indices) - decay


def chunk_local_cumsum(
    g: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] float32: the sum of the gates of each token's chunk, up to this
    token."""
    if chunk_indices is None:
        chunk_indices = prepare_chunk_indices(cu_seqlens)
    first, _ = chunk_ends(cu_seqlens, chunk_indices, len(g))
    total = g.cumsum(0)
    return total - (total - g)[first]


def last_of_chunk(
    x: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] like `x`: the value of the last token of each token's chunk."""
    if chunk_indices is None:
        chunk_indices = prepare_chunk_indices(cu_seqlens)
    _, last = chunk_ends(cu_seqlens, chunk_indices, len(x))
    return x[last]


def prepare_chunk_indices(cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Returns the table of chunks, [NT, 2] int32 on the device: a row (sequence, chunk in this
    sequence) for each chunk. Takes two host syncs: the starts are read back from the device, and
    the table is uploaded."""
    return chunk_tables.prepare_chunk_indices(cu_seqlens.cpu()).to(cu_seqlens.device)


def chunk_ends(
    cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor, num_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the places of the first and of the last token of each token's chunk, [num_tokens]
    int64 each. The host doesn't wait, since it knows `num_tokens`."""
    sequence, chunk = chunk_indices.long().unbind(1)
    first = cu_seqlens[sequence] + chunk * FLA_CHUNK_SIZE
    end = torch.minimum(first + FLA_CHUNK_SIZE, cu_seqlens[sequence + 1])
    token = torch.arange(num_tokens, device=cu_seqlens.device)
    chunk_of_token = torch.searchsorted(end[:-1], token, right=True)
    return first[chunk_of_token], end[chunk_of_token] - 1
