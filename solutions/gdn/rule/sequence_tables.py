"""Where the sequences of a batch start, and the chunk tables that go with that: given, or made."""

from __future__ import annotations

import torch

from ..chunk_tables import FLA_CHUNK_SIZE, ChunkTables, check_chunk_size, check_tables
from ..device_tables import prepare_chunk_tables_on_device


def check_sequences(
    tokens: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None,
    chunk_offsets: torch.Tensor | None = None,
    chunk_size: int = FLA_CHUNK_SIZE,
    needs_offsets: bool = False,
) -> int:
    """How many sequences there are. ValueError if these can't be the starts and the tables of
    `tokens` [1, T, ...], or not all that is needed is given; None is what `sequences_of` makes."""
    check_chunk_size(chunk_size)
    num_seqs = 1 if cu_seqlens is None else _count(cu_seqlens, tokens.device)
    for name, table, other in (
        ("chunk_indices", chunk_indices, chunk_offsets if needs_offsets else chunk_indices),
        ("chunk_offsets", chunk_offsets, chunk_indices),
    ):
        if table is None:
            continue
        if other is None:
            raise ValueError(f"{name} alone: give both tables, of the same cu_seqlens, or none")
        if table.device != tokens.device:
            raise ValueError(
                f"{name} is on {table.device}, and the tokens on {tokens.device}: upload the "
                "tables once a step, with upload_chunk_tables"
            )
    if chunk_indices is not None:
        check_tables(chunk_indices, chunk_offsets, num_seqs, tokens.shape[1], chunk_size)
    return num_seqs


def sequences_of(
    tokens: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None,
    chunk_offsets: torch.Tensor | None,
    chunk_size: int = FLA_CHUNK_SIZE,
) -> tuple[torch.Tensor, ChunkTables]:
    """(cu_seqlens, tables), checked before. Without starts there is one sequence of all tokens,
    without tables they are made on the device: nothing is uploaded, and nobody waits."""
    cu_seqlens = _starts(tokens, cu_seqlens)
    if chunk_indices is None or chunk_offsets is None:
        tables = prepare_chunk_tables_on_device(cu_seqlens, tokens.shape[1], chunk_size)
        return cu_seqlens, tables
    return cu_seqlens, ChunkTables(chunk_indices, chunk_offsets)


def chunks_of(
    tokens: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None,
    chunk_size: int = FLA_CHUNK_SIZE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cu_seqlens [num_seqs + 1] int32, chunk_indices [NT, 2] int32) as `sequences_of` gives them,
    for an op that works on each chunk by itself and needs no offsets."""
    cu_seqlens = _starts(tokens, cu_seqlens)
    if chunk_indices is None:
        tables = prepare_chunk_tables_on_device(cu_seqlens, tokens.shape[1], chunk_size)
        return cu_seqlens, tables.chunk_indices
    return cu_seqlens, chunk_indices


def _starts(tokens: torch.Tensor, cu_seqlens: torch.Tensor | None) -> torch.Tensor:
    """`cu_seqlens`, or where that is None the [2] int32 of one sequence of all tokens."""
    if cu_seqlens is not None:
        return cu_seqlens
    return torch.arange(2, dtype=torch.int32, device=tokens.device) * tokens.shape[1]


def _count(cu_seqlens: torch.Tensor, device: torch.device) -> int:
    if (
        cu_seqlens.dim() != 1
        or not len(cu_seqlens)
        or cu_seqlens.dtype != torch.int32
        or cu_seqlens.device != device
        or not cu_seqlens.is_contiguous()
    ):
        raise ValueError(
            f"cu_seqlens is {cu_seqlens.dtype} {list(cu_seqlens.shape)} with strides "
            f"{list(cu_seqlens.stride())} on {cu_seqlens.device}: make it torch.int32 "
            f"[sequences + 1] on {device}, contiguous"
        )
    return len(cu_seqlens) - 1
