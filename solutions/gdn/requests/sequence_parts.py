"""Makes the layers' metadata of decodes and prefills on the device, without an upload, by kernels
that the host queues without knowing a length."""

from __future__ import annotations

from typing import NamedTuple

import torch

from solutions.sync_free.model.conv_chunks import CHUNK_TOKENS, ConvMetadata

from ..device_tables import prepare_chunk_tables_on_device, search_chunk_tables
from .batch import RequestSplit
from .prefills import PrefillMetadata


class SequenceParts(NamedTuple):
    """The metadata of a step's decodes and prefills that the layers read, on the device."""

    has_initial_state: torch.Tensor
    """[num_seqs] bool: True if tokens of the request were computed before this step."""
    conv_metadata: ConvMetadata
    prefills: PrefillMetadata | None = None


def scan_sequences(
    split: RequestSplit, query_start_loc: torch.Tensor, seq_lens: torch.Tensor
) -> SequenceParts:
    """Returns the SequenceParts of a batch with prefills, made on the device without an upload.

    `query_start_loc` [num_seqs + 1] and `seq_lens` [num_seqs] are int32, of the requests that are
    not speculative.
    """
    has_initial_state = seq_lens > query_start_loc.diff()
    prefill_starts = query_start_loc[split.num_decodes :]
    if split.num_decodes:
        prefill_starts = prefill_starts - split.num_decodes
    num_tokens = split.num_non_spec_tokens
    conv_chunks = search_chunk_tables(query_start_loc, num_tokens, CHUNK_TOKENS).chunk_indices
    return SequenceParts(
        has_initial_state,
        ConvMetadata(
            batch_of_chunk=conv_chunks[:, 0].contiguous(),
            chunk_offset=conv_chunks[:, 1] * CHUNK_TOKENS,
            num_seqs=len(seq_lens),
            num_tokens=num_tokens,
        ),
        PrefillMetadata(
            split.num_decodes,
            split.num_prefills,
            split.num_prefill_tokens,
            prefill_starts,
            has_initial_state[split.num_decodes :],
            *prepare_chunk_tables_on_device(prefill_starts, split.num_prefill_tokens),
        ),
    )


def decode_sequences(
    split: RequestSplit, query_start_loc: torch.Tensor, seq_lens: torch.Tensor
) -> SequenceParts:
    """Returns the SequenceParts of a batch without prefills, made on the device. They need no
    upload, since each decode is one chunk of one token. The arguments are those of
    `scan_sequences`."""
    num_decodes, device = split.num_decodes, seq_lens.device
    return SequenceParts(
        seq_lens > query_start_loc.diff(),
        ConvMetadata(
            batch_of_chunk=torch.arange(num_decodes, dtype=torch.int32, device=device),
            chunk_offset=torch.zeros(num_decodes, dtype=torch.int32, device=device),
            num_seqs=len(seq_lens),
            num_tokens=num_decodes,
        ),
    )
