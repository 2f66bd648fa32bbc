"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

FLA_CHUNK_SIZE = 64
HostIntegers = np.ndarray | torch.Tensor


@dataclass(frozen=True)
class GDNCommonMetadata:
    """The requests of a step, in the order of their tokens: decodes of one token first, then
    prefills, and requests without tokens, which pad the batch, last. Speculative requests may
    stand anywhere before the padding."""

    query_start_loc: torch.Tensor
    """[num_requests + 1] int32 on the device: where each one's tokens start, then the last end."""
    query_start_loc_cpu: HostIntegers
    """The same numbers on the host."""
    seq_lens: torch.Tensor
    """[num_requests] int32 on the device: tokens that were computed before, and those of this
    step. 0 for padding."""
    seq_lens_cpu: HostIntegers
    """The same numbers on the host."""
    state_indices: torch.Tensor
    """[num_requests, 1 + most draft tokens] int32 on the device: the slots of a request's states. A
    speculative request with d draft tokens leaves its states in the first 1 + d columns, and
    continues from the slot after the last step's accepted tokens, which may be a later column, so
    it keeps all its slots. Any other request has only column 0; PAD_SLOT (-1) is no slot."""
    num_actual_tokens: int
    """Tokens of all requests together in this step."""


@dataclass(frozen=True)
class PrefillMetadata:
    """The prefills among a step's requests, and the inputs of the chunked rule. The four tensors
    are None if there are no prefills."""

    num_decodes: int
    """Requests of one token that continue from a state, before all other requests; 0 next to
    speculative requests, where they are prefills."""
    num_prefills: int
    """Prefills, and the requests without tokens that pad a batch in which there are some."""
    num_prefill_tokens: int
    query_start_loc: torch.Tensor | None = None
    """[num_prefills + 1] int32 on the device, from 0 to num_prefill_tokens: starts among the
    prefills' tokens."""
    has_initial_state: torch.Tensor | None = None
    """[num_prefills] bool on the device: True if tokens were computed before."""
    chunk_indices: torch.Tensor | None = None
    """[NT, 2] int32 on the device, of this query_start_loc."""
    chunk_offsets: torch.Tensor | None = None
    """[num_prefills + 1] int64 on the device, of this query_start_loc."""


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
