"""The tables as they were: made in the forward, from what the device says the starts are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .chunk_tables import FLA_CHUNK_SIZE
from .rule.chunk_gated_delta_rule import (
    chunk_gated_delta_rule as chunk_gated_delta_rule_with_tables,
)


def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[NT, 2] int32 on the device: (sequence, chunk in this sequence), in order.

    `cu_seqlens` [num_seqs + 1] int32 on the device. Two host syncs: it is read back, and the table
    that is made of it is sent.
    """
    lengths = cu_seqlens.diff().tolist()
    rows = [
        (sequence, chunk)
        for sequence, length in enumerate(lengths)
        for chunk in range(-(-length // chunk_size))
    ]
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)


def prepare_chunk_offsets(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[num_seqs + 1] int64 on the device: how many chunks come before each sequence, then how many
    there are. One host sync, for the zero that it begins with."""
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.cat([torch.tensor([0], device=cu_seqlens.device), chunks.cumsum(0)])


def identity_cache(make: Callable) -> Callable:
    """`make`, of positional arguments, called only when they are other objects than the last time.
    What they hold may have changed by then, and they live for as long as they are remembered."""
    last: tuple[tuple, Any] | None = None

    @functools.wraps(make)
    def cached(*arguments):
        nonlocal last
        if last is None or not _same_objects(last[0], arguments):
            last = arguments, make(*arguments)
        return last[1]

    return cached


def _same_objects(some: tuple, others: tuple) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


cached_prepare_chunk_indices = identity_cache(prepare_chunk_indices)
cached_prepare_chunk_offsets = identity_cache(prepare_chunk_offsets)


def chunk_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    chunk_indices: torch.Tensor | None = None,
    chunk_offsets: torch.Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    state_indices: torch.Tensor | None = None,
    has_initial_state: torch.Tensor | None = None,
    cached: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(o, final_state), with tables that each call makes: three host syncs. `cached` leaves them to
    the first of the layers that share one `cu_seqlens`. Tables that are given are not looked at."""
    if cu_seqlens is not None:
        indices = cached_prepare_chunk_indices if cached else prepare_chunk_indices
        offsets = cached_prepare_chunk_offsets if cached else prepare_chunk_offsets
        chunk_indices = indices(cu_seqlens, FLA_CHUNK_SIZE)
        chunk_offsets = offsets(cu_seqlens, FLA_CHUNK_SIZE)
    return chunk_gated_delta_rule_with_tables(
        q,
        k,
        v,
        g,
        beta,
        scale,
        initial_state,
        output_final_state,
        cu_seqlens,
        chunk_indices,
        chunk_offsets,
        use_qk_l2norm_in_kernel,
        state_indices,
        has_initial_state,
    )
