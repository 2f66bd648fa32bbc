"""Ops that each make the table for themselves, in every layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...before import prepare_chunk_indices
from ..thread_the_tables import chunk_ends


def decays_of_layers(
    gates: Sequence[torch.Tensor], cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor
) -> list[torch.Tensor]:
    """Returns `decay_until_end` of each layer's gates: a list of [num_tokens] float32."""
    return [decay_until_end(g, cu_seqlens) for g in gates]


def decay_until_end(
    g: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] float32: the sum of the gates after each token, up to the end of its
    chunk."""
    decay = chunk_local_cumsum(g, cu_seqlens)
    return last_of_chunk(decay, cu_seqlens) - decay


def chunk_local_cumsum(
    g: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] float32: the sum of the gates of each token's chunk, up to this
    token."""
    chunk_indices = prepare_chunk_indices(cu_seqlens)
    first, _ = chunk_ends(cu_seqlens, chunk_indices, len(g))
    total = g.cumsum(0)
    return total - (total - g)[first]


def last_of_chunk(
    x: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] like `x`: the value of the last token of each token's chunk."""
    chunk_indices = prepare_chunk_indices(cu_seqlens)
    _, last = chunk_ends(cu_seqlens, chunk_indices, len(x))
    return x[last]
