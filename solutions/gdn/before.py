"""Makes chunk tables in each layer, from starts that are read back from the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .rule import chunk_gated_delta_rule as with_tables
from .rule.chunks import FLA_CHUNK_SIZE, ChunkTables


def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [NT, 2] int32 on the device: (sequence, chunk in this sequence), in order.

    `cu_seqlens` is [num_seqs + 1] int32 on the device. Takes two host syncs: the starts are read
    back, and the table is uploaded.
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
    """Returns [num_seqs + 1] int64 on the device: how many chunks come before each sequence, then
    how many there are. Takes one host sync: the leading zero is uploaded."""
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.cat([torch.tensor([0], device=cu_seqlens.device), chunks.cumsum(0)])


def prepare_chunk_tables(cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE) -> ChunkTables:
    """Returns both tables, `chunk_indices` and `chunk_offsets`, of the same `cu_seqlens`."""
    indices = prepare_chunk_indices(cu_seqlens, chunk_size)
    return ChunkTables(indices, prepare_chunk_offsets(cu_seqlens, chunk_size))


def identity_cache(make: Callable) -> Callable:
    """Returns `make` with a cache of its last result, which is returned again for the same argument
    objects. The numbers in these may have changed since, and the cache keeps the objects alive."""
    last: tuple[tuple, Any] | None = None

    @functools.wraps(make)
    def cached(*arguments):
        nonlocal last
        found = last  # Another thread may replace `last` in the meantime.
        if found is None or not _same_objects(found[0], arguments):
            found = last = arguments, make(*arguments)
        return found[1]

    return cached


def _same_objects(some: tuple, others: tuple) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


cached_chunk_tables = identity_cache(prepare_chunk_tables)
rule_with_tables: Callable[..., Any] = with_tables.chunk_gated_delta_rule


def chunk_gated_delta_rule(
    *args: object, cu_seqlens: torch.Tensor | None = None, cached: bool = False, **named: object
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Runs the chunked rule with tables that each call makes from `cu_seqlens`: three host syncs.
    With `cached`, only the first of the layers that share one `cu_seqlens` makes them."""
    if cu_seqlens is not None:
        prepare = cached_chunk_tables if cached else prepare_chunk_tables
        named |= prepare(cu_seqlens)._asdict()
    return rule_with_tables(*args, cu_seqlens=cu_seqlens, **named)
