"""Defines the size of a chunk for every kernel, and the tables of chunks, wherever they are
made."""

from __future__ import annotations

from typing import NamedTuple

import torch

FLA_CHUNK_SIZE = 64
"""Number of tokens of a chunk, in every kernel that shares a table: a kernel with chunks of another
size would work on other tokens than the table says."""
SMALLEST_CHUNK = 16
"""Smallest allowed number of tokens of a chunk, set by the blocks in which a chunk's triangular
system is solved."""


class ChunkTables(NamedTuple):
    """Tables that tell each program which chunk of which sequence to work on, the same for all
    layers of a step. Tables that were made on the device may end with rows (-1, -1) of
    `chunk_indices`, which stand for no chunk."""

    chunk_indices: torch.Tensor
    """[NT, 2] int32: (sequence, chunk in this sequence), in order."""
    chunk_offsets: torch.Tensor
    """[num_seqs + 1] int64: how many chunks come before each sequence, then how many there are."""


def most_chunks(num_seqs: int, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE) -> int:
    """Returns the most chunks that `num_seqs` sequences with `num_tokens` tokens in all can have.
    The host can compute this without their lengths: at worst all sequences but one have a single
    token."""
    if num_tokens < 0 or (num_tokens and not num_seqs):
        raise ValueError(f"{num_tokens} tokens in {num_seqs} sequences: each belongs to one")
    if num_tokens <= num_seqs:
        return num_tokens
    return num_seqs - 1 + -(-(num_tokens - num_seqs + 1) // chunk_size)


def check_chunk_size(chunk_size: int) -> None:
    """Raises ValueError unless the chunk size is a power of two of at least SMALLEST_CHUNK
    tokens."""
    if chunk_size < SMALLEST_CHUNK or chunk_size & (chunk_size - 1):
        raise ValueError(
            f"chunks of {chunk_size} tokens: use a power of two, {SMALLEST_CHUNK} or more"
        )


def check_tables(
    chunk_indices: torch.Tensor,
    chunk_offsets: torch.Tensor,
    num_seqs: int,
    num_tokens: int,
    chunk_size: int = FLA_CHUNK_SIZE,
) -> None:
    """Raises ValueError unless the tables' dtypes and shapes can be those of `num_seqs` sequences
    with `num_tokens` tokens. Values are not read, since the host would wait."""
    rows = chunk_indices.shape[:1].numel()
    fewest, most = -(-num_tokens // chunk_size), most_chunks(num_seqs, num_tokens, chunk_size)
    fits = chunk_indices.shape == (rows, 2) and fewest <= rows <= most
    if not fits or chunk_indices.dtype != torch.int32 or not chunk_indices.is_contiguous():
        raise ValueError(
            f"chunk_indices is {_described(chunk_indices)}: {num_seqs} sequences with {num_tokens} "
            f"tokens have {fewest} to {most} chunks of {chunk_size}, so make it torch.int32 "
            "[chunks, 2], contiguous, from the same cu_seqlens and chunk size"
        )
    fits = chunk_offsets.shape == (num_seqs + 1,)
    if not fits or chunk_offsets.dtype != torch.int64 or not chunk_offsets.is_contiguous():
        raise ValueError(
            f"chunk_offsets is {_described(chunk_offsets)}: for {num_seqs} sequences make it "
            f"torch.int64 [{num_seqs + 1}], contiguous, from the same cu_seqlens and chunk size"
        )


def _described(tensor: torch.Tensor) -> str:
    layout = "" if tensor.is_contiguous() else f" with strides {list(tensor.stride())}"
    return f"{tensor.dtype} {list(tensor.shape)}{layout}"
