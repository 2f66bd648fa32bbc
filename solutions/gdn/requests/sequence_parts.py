"""What the kernels ask of a step's sequences, those that are not speculative: planned on the host
and uploaded, or made on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays
from solutions.sync_free.sites.conv_metadata import CHUNK_TOKENS, ConvMetadata

from ..chunk_tables import prepare_chunk_indices, prepare_chunk_tables
from ..device_tables import prepare_chunk_tables_on_device, scan_chunks
from ..rule.chunks import ChunkTables
from .batch import RequestSplit, starts_of


class SequenceParts(NamedTuple):
    """Fields of GDNAttentionMetadata, on the device. The last two are None without prefills."""

    has_initial_state: torch.Tensor
    conv_metadata: ConvMetadata
    prefill_query_start_loc: torch.Tensor | None = None
    chunk_tables: ChunkTables | None = None


def plan_sequences(split: RequestSplit, with_tables: bool) -> SequencePlan:
    """Of a batch with prefills, whose lengths were checked when they came in."""
    starts = starts_of(split.non_spec_query_lens)
    # The prefills' tokens are cut out of the batch's, so they are counted from their first one.
    prefill_starts = starts[split.num_decodes :] - starts[split.num_decodes]
    num_computed = split.lengths.num_computed[~split.is_speculative]
    chunks = prepare_chunk_indices(torch.from_numpy(starts), CHUNK_TOKENS).numpy()
    plans: dict[str, HostArrays] = {
        "requests": {
            "has_initial_state": num_computed > 0,
            "prefill_query_start_loc": prefill_starts,
        },
        "convolution": {
            "batch_of_chunk": chunks[:, 0],
            "chunk_offset": chunks[:, 1] * CHUNK_TOKENS,
        },
    }
    if with_tables:
        tables = prepare_chunk_tables(torch.from_numpy(prefill_starts))
        plans["tables"] = {name: table.numpy() for name, table in tables._asdict().items()}
    return SequencePlan(plans, len(starts) - 1, int(starts[-1]))


@dataclass(frozen=True)
class SequencePlan:
    """`plans`: what is sent in one upload with all else that the step needs."""

    plans: dict[str, HostArrays]
    num_seqs: int
    num_tokens: int

    def apply(self, on_device: dict[str, DeviceArrays]) -> SequenceParts:
        chunks = on_device["convolution"]
        return SequenceParts(
            **on_device["requests"],
            conv_metadata=ConvMetadata(
                chunks["batch_of_chunk"], chunks["chunk_offset"], self.num_seqs, self.num_tokens
            ),
            chunk_tables=ChunkTables(**on_device["tables"]) if "tables" in on_device else None,
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
