"""Which chunk of which sequence each program works on: planned on the host, once a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed
from solutions.common.sequence_lengths import sequence_lengths

FLA_CHUNK_SIZE = 64
"""Tokens of a chunk, in every kernel that shares a table: one with chunks of another size would
work on other tokens than the table says."""
SMALLEST_CHUNK = 16
"""Tokens: the blocks by which a chunk's triangular system is solved."""


class ChunkTables(NamedTuple):
    """The same for all layers of a step, on the device. A row of `chunk_indices` is (-1, -1) where
    there is no chunk: only tables that were made on the device have such rows, at their end."""

    chunk_indices: torch.Tensor
    """[NT, 2] int32: (sequence, chunk in this sequence), in order."""
    chunk_offsets: torch.Tensor
    """[num_seqs + 1] int64: how many chunks come before each sequence, then how many there are."""


def prepare_chunk_indices(
    cu_seqlens: HostIntegers, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[NT, 2] int32 on the host: (sequence, chunk in this sequence), in order (vLLM #38361).

    `cu_seqlens` [num_seqs + 1], integers on the host: where each sequence starts, then the end of
    the last one. Errors are those of `plan_chunk_tables`.
    """
    return torch.from_numpy(_indices(_offsets(cu_seqlens, chunk_size)))


def prepare_chunk_offsets(
    cu_seqlens: HostIntegers, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """[num_seqs + 1] int64 on the host: how many chunks come before each sequence, then how many
    there are (vLLM #38361)."""
    return torch.from_numpy(_offsets(cu_seqlens, chunk_size))


def upload_chunk_tables(
    cu_seqlens: HostIntegers, device: torch.device, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Both tables on the device, by one upload that nobody waits for."""
    plan = plan_chunk_tables(cu_seqlens, chunk_size)
    return plan.apply(upload_packed(plan.arrays, device))


def plan_chunk_tables(
    cu_seqlens: HostIntegers, chunk_size: int = FLA_CHUNK_SIZE, num_tokens: int | None = None
) -> ChunkTablesPlan:
    """Both tables on the host, to be uploaded with whatever else the step needs.

    ValueError if `cu_seqlens` doesn't start at 0, decreases, or doesn't end at `num_tokens`, and if
    the chunk size is no power of two or below SMALLEST_CHUNK.
    """
    offsets = _offsets(cu_seqlens, chunk_size, num_tokens)
    return ChunkTablesPlan({"chunk_indices": _indices(offsets), "chunk_offsets": offsets})


@dataclass(frozen=True)
class ChunkTablesPlan:
    """`arrays`: those of ChunkTables, under the same names."""

    arrays: HostArrays

    def apply(self, on_device: DeviceArrays) -> ChunkTables:
        return ChunkTables(**on_device)


def most_chunks(num_seqs: int, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE) -> int:
    """Chunks that so many sequences of so many tokens in all can have: what the host knows without
    their lengths. All but one sequence have a single token, and the last one the others."""
    if num_tokens < 0 or (num_tokens and not num_seqs):
        raise ValueError(f"{num_tokens} tokens in {num_seqs} sequences: each belongs to one")
    if num_tokens <= num_seqs:
        return num_tokens
    return num_seqs - 1 + -(-(num_tokens - num_seqs + 1) // chunk_size)


def check_tables(
    chunk_indices: torch.Tensor,
    chunk_offsets: torch.Tensor | None,
    num_seqs: int,
    num_tokens: int,
    chunk_size: int = FLA_CHUNK_SIZE,
) -> None:
    """ValueError unless tables of these shapes can be those of so many sequences and tokens. Their
    values are not read: that would be to wait. `chunk_offsets` is None where only rows are used."""
    rows = chunk_indices.shape[:1].numel()
    fewest, most = -(-num_tokens // chunk_size), most_chunks(num_seqs, num_tokens, chunk_size)
    fits = chunk_indices.shape == (rows, 2) and fewest <= rows <= most
    if not fits or chunk_indices.dtype != torch.int32 or not chunk_indices.is_contiguous():
        raise ValueError(
            f"chunk_indices is {_described(chunk_indices)}: {num_seqs} sequences with {num_tokens} "
            f"tokens have {fewest} to {most} chunks of {chunk_size}, so make it torch.int32 "
            "[chunks, 2], contiguous, from the same cu_seqlens and chunk size"
        )
    if chunk_offsets is None:
        return
    fits = chunk_offsets.shape == (num_seqs + 1,)
    if not fits or chunk_offsets.dtype != torch.int64 or not chunk_offsets.is_contiguous():
        raise ValueError(
            f"chunk_offsets is {_described(chunk_offsets)}: for {num_seqs} sequences make it "
            f"torch.int64 [{num_seqs + 1}], contiguous, from the same cu_seqlens and chunk size"
        )


def check_chunk_size(chunk_size: int) -> None:
    if chunk_size < SMALLEST_CHUNK or chunk_size & (chunk_size - 1):
        raise ValueError(
            f"chunks of {chunk_size} tokens: use a power of two, {SMALLEST_CHUNK} or more"
        )


def _offsets(
    cu_seqlens: HostIntegers, chunk_size: int, num_tokens: int | None = None
) -> np.ndarray:
    check_chunk_size(chunk_size)
    lengths = sequence_lengths("cu_seqlens", cu_seqlens, num_tokens)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum((lengths + (chunk_size - 1)) // chunk_size, out=offsets[1:])
    return offsets


def _indices(offsets: np.ndarray) -> np.ndarray:
    """One row for each chunk, of its sequence's number and of its own, counted from the first one
    of all; then counted anew from where the sequence starts."""
    starts = np.empty((len(offsets) - 1, 2), np.int32)
    starts[:, 0] = np.arange(len(starts))
    starts[:, 1] = -offsets[:-1]
    # By their number, not by where a chunk 0 appears: a sequence without tokens has no such chunk.
    indices = np.repeat(starts, np.diff(offsets), axis=0)
    indices[:, 1] += np.arange(len(indices), dtype=np.int32)
    return indices


def _described(tensor: torch.Tensor) -> str:
    layout = "" if tensor.is_contiguous() else f" with strides {list(tensor.stride())}"
    return f"{tensor.dtype} {list(tensor.shape)}{layout}"
