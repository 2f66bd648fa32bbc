"""What the kernels ask of a step's sequences, those that are not speculative: planned on the host
and uploaded, or made on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays
from solutions.sync_free.sites.conv_metadata import (
    CHUNK_TOKENS,
    ConvMetadata,
    ConvMetadataPlan,
    plan_conv_metadata,
)

from ..chunk_tables import ChunkTables, ChunkTablesPlan, plan_chunk_tables
from ..device_tables import prepare_chunk_tables_on_device, scan_chunks
from .request_split import RequestSplit, starts_of


class SequenceParts(NamedTuple):
    """Fields of GDNAttentionMetadata, on the device. The last two are None without prefills."""

    has_initial_state: torch.Tensor
    conv_metadata: ConvMetadata
    prefill_query_start_loc: torch.Tensor | None = None
    chunk_tables: ChunkTables | None = None


def plan_sequences(split: RequestSplit, with_tables: bool) -> SequencePlan:
    """Of a batch with prefills."""
    starts = starts_of(split.non_spec_query_lens)
    # The prefills' tokens are cut out of the batch's, so they are counted from their first one.
    prefill_starts = starts[split.num_decodes :] - starts[split.num_decodes]
    num_computed = split.lengths.num_computed[~split.is_speculative]
    requests = {"has_initial_state": num_computed > 0, "prefill_query_start_loc": prefill_starts}
    tables = plan_chunk_tables(prefill_starts) if with_tables else None
    return SequencePlan(requests, plan_conv_metadata(starts), tables)


@dataclass(frozen=True)
class SequencePlan:
    """Three plans of one upload."""

    requests: HostArrays
    convolution: ConvMetadataPlan
    tables: ChunkTablesPlan | None

    @property
    def plans(self) -> dict[str, HostArrays]:
        plans = {"requests": self.requests, "convolution": self.convolution.arrays}
        return plans | ({"tables": self.tables.arrays} if self.tables else {})

    def apply(self, on_device: dict[str, DeviceArrays]) -> SequenceParts:
        return SequenceParts(
            **on_device["requests"],
            conv_metadata=self.convolution.apply(on_device["convolution"]),
            chunk_tables=self.tables.apply(on_device["tables"]) if self.tables else None,
        )


def scan_sequences(
    split: RequestSplit, query_start_loc: torch.Tensor, seq_lens: torch.Tensor
) -> SequenceParts:
    """The same without an upload, of [num_seqs + 1] and [num_seqs] int32 on the device."""
    prefill_starts = query_start_loc[split.num_decodes :]
    if split.num_decodes:
        prefill_starts = prefill_starts - split.num_decodes
    num_tokens = split.num_decodes + split.num_prefill_tokens
    conv_chunks = scan_chunks(query_start_loc, num_tokens, CHUNK_TOKENS).chunk_indices
    return SequenceParts(
        _has_initial_state(query_start_loc, seq_lens),
        ConvMetadata(
            batch_of_chunk=conv_chunks[:, 0].contiguous(),
            chunk_offset=conv_chunks[:, 1] * CHUNK_TOKENS,
            num_seqs=len(seq_lens),
            num_tokens=num_tokens,
        ),
        prefill_starts,
        prepare_chunk_tables_on_device(prefill_starts, split.num_prefill_tokens),
    )


def decode_sequences(
    split: RequestSplit, query_start_loc: torch.Tensor, seq_lens: torch.Tensor
) -> SequenceParts:
    """Of a batch without prefills. Nothing is uploaded: each decode is one chunk of one token."""
    num_decodes, device = split.num_decodes, seq_lens.device
    return SequenceParts(
        _has_initial_state(query_start_loc, seq_lens),
        ConvMetadata(
            batch_of_chunk=torch.arange(num_decodes, dtype=torch.int32, device=device),
            chunk_offset=torch.zeros(num_decodes, dtype=torch.int32, device=device),
            num_seqs=len(seq_lens),
            num_tokens=num_decodes,
        ),
    )


def _has_initial_state(query_start_loc: torch.Tensor, seq_lens: torch.Tensor) -> torch.Tensor:
    """More tokens in all than in this step."""
    return seq_lens > query_start_loc.diff()
