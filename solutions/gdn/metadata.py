"""The metadata that a step's layers read: made once, and never by a wait (vLLM #38361)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

import torch

from solutions.common.host_integers import HostIntegers
from solutions.common.packed_upload import upload_plans
from solutions.common.staging_ring import StagingRing
from solutions.sync_free.model.conv_chunks import CHUNK_TOKENS, ConvMetadata

from .chunk_tables import prepare_chunk_indices
from .requests.batch import (
    GDNCommonMetadata,
    RequestSplit,
    checked_lengths,
    checked_speculation,
    split_requests,
    starts_of,
)
from .requests.prefills import plan_prefills
from .requests.reordering import Reordering, plan_reordering, reorder_on_device
from .requests.sequence_parts import SequenceParts, decode_sequences, scan_sequences

Tables = Literal["host", "device"]
"""The place where the builder makes the chunk tables."""


@dataclass(frozen=True)
class GDNAttentionMetadata:
    """The data of a step that all of its layers read. All tensors are on the device and contiguous.

    In the shapes, `num_seqs` is num_decodes + num_prefills + num_padding. `num_spec` is
    num_spec_decodes, plus num_padding in a batch of speculative requests only.
    """

    num_prefills: int
    """Prefills, and the requests without tokens that pad a batch in which there are some."""
    num_prefill_tokens: int
    num_decodes: int
    """Number of leading requests with one token that continue from a state. Next to speculative
    requests it is 0, since such requests then count as prefills."""
    num_decode_tokens: int
    num_spec_decodes: int
    num_spec_decode_tokens: int
    num_actual_tokens: int
    num_padding: int
    """Number of requests without tokens that pad a batch of decodes, or a batch of speculative
    requests: the last rows of that kind's tensors. 0 if there are prefills."""

    # Decodes, then prefills. None in a batch of speculative requests only.
    non_spec_query_start_loc: torch.Tensor | None = None
    """[num_seqs + 1] int32: where each request starts among the tokens that are not speculative,
    then the last end."""
    non_spec_state_indices: torch.Tensor | None = None
    """[num_seqs] int32: the slot of each request's state, -1 for padding."""
    has_initial_state: torch.Tensor | None = None
    """[num_seqs] bool: True if tokens of the request were computed before, as for decodes; False
    for padding."""
    conv_metadata: ConvMetadata | None = None
    """The short convolution's metadata for the tokens that are not speculative. If it was made on
    the device, rows past the last chunk have sequence -1."""

    # Prefills. None without prefills.
    prefill_query_start_loc: torch.Tensor | None = None
    """[num_prefills + 1] int32, from 0 to num_prefill_tokens: where each prefill starts among the
    tokens of the prefills, then the last end."""
    prefill_state_indices: torch.Tensor | None = None
    """[num_prefills] int32: the slot of each prefill's state, a view of non_spec_state_indices."""
    prefill_has_initial_state: torch.Tensor | None = None
    """[num_prefills] bool: True if tokens of the prefill were computed before, a view of
    has_initial_state."""
    chunk_indices: torch.Tensor | None = None
    """[NT, 2] int32: the table of the prefills' chunks, of prefill_query_start_loc, as in
    ChunkTables."""
    chunk_offsets: torch.Tensor | None = None
    """[num_prefills + 1] int64: the number of chunks before each prefill, then of all, as in
    ChunkTables."""

    # Speculative requests. None without speculative requests.
    spec_query_start_loc: torch.Tensor | None = None
    """[num_spec + 1] int32: where each speculative request starts among the speculative tokens,
    then the last end."""
    spec_state_indices: torch.Tensor | None = None
    """[num_spec, 1 + most draft tokens] int32: the slots of each speculative request's states, rows
    of the batch's state_indices."""
    num_accepted_tokens: torch.Tensor | None = None
    """[num_spec] int32: how many tokens of each speculative request the last step accepted, at
    least 1."""

    # None if all tokens are of one kind.
    spec_token_indices: torch.Tensor | None = None
    """[num_spec_decode_tokens] int64: indices of the speculative tokens in the batch."""
    non_spec_token_indices: torch.Tensor | None = None
    """[num_prefill_tokens] int64: indices of all other tokens."""


class NonSpecFields(TypedDict, total=False):
    """The fields of GDNAttentionMetadata that describe the requests that are not speculative. A
    batch without such requests has none of them."""

    non_spec_query_start_loc: torch.Tensor
    non_spec_state_indices: torch.Tensor
    has_initial_state: torch.Tensor
    conv_metadata: ConvMetadata
    prefill_query_start_loc: torch.Tensor | None
    prefill_state_indices: torch.Tensor
    prefill_has_initial_state: torch.Tensor | None
    chunk_indices: torch.Tensor | None
    chunk_offsets: torch.Tensor | None


class SpecFields(TypedDict, total=False):
    """The fields of GDNAttentionMetadata that describe the speculative requests, and which tokens
    of the batch are speculative. A batch without speculative requests has none of them."""

    spec_query_start_loc: torch.Tensor
    spec_state_indices: torch.Tensor
    num_accepted_tokens: torch.Tensor
    spec_token_indices: torch.Tensor
    non_spec_token_indices: torch.Tensor


class GDNAttentionMetadataBuilder:
    """Builds a GDNAttentionMetadata for each step.

    `tables` says where the chunk tables are made. "host" plans them on the host and sends them with
    everything else that a step needs, in one pinned upload. "device" makes everything on the device
    and uploads nothing. None makes no tables, as before the change. Without prefills nothing is
    uploaded in any case. `ring` is a StagingRing of bytes, whose memory the uploads reuse.
    """

    def __init__(
        self,
        device: torch.device,
        tables: Tables | None = "host",
        ring: StagingRing | None = None,
    ) -> None:
        if tables is not None and tables not in get_args(Tables):
            raise ValueError(f"tables {tables!r}: choose 'host', 'device' or None")
        # "cuda" is a device without an index, and no tensor's device is equal to it.
        self.device = torch.empty(0, device=device).device
        self.tables, self.ring = tables, ring

    def build(
        self,
        common: GDNCommonMetadata,
        num_accepted_tokens: torch.Tensor | None = None,
        num_decode_draft_tokens_cpu: HostIntegers | None = None,
    ) -> GDNAttentionMetadata:
        """Returns the metadata of a step, for all of its layers, without a wait (vLLM #38361).

        num_accepted_tokens          [num_requests] int32 on the device: how many of the last step's
                                     tokens were accepted, at least 1 for a speculative request
        num_decode_draft_tokens_cpu  [num_requests] integers on the host: the draft tokens of a
                                     speculative request, 0 or more, and -1 for any other request

        Raises ValueError, before any upload, for a batch that can't exist.
        """
        lengths = checked_lengths(common, self.device)
        is_speculative = checked_speculation(
            lengths.query_lens,
            common.state_indices,
            num_accepted_tokens,
            num_decode_draft_tokens_cpu,
        )
        # All counts and tables follow from the split. Next to speculative requests, decodes are
        # prefills.
        split = split_requests(lengths, is_speculative)
        reordering, parts = self._made_anew(split, common)
        return GDNAttentionMetadata(
            num_prefills=split.num_prefills,
            num_prefill_tokens=split.num_prefill_tokens,
            num_decodes=split.num_decodes,
            num_decode_tokens=split.num_decodes,
            num_spec_decodes=split.num_spec_decodes,
            num_spec_decode_tokens=split.num_spec_decode_tokens,
            num_actual_tokens=common.num_actual_tokens,
            num_padding=split.num_padding,
            **_non_spec_fields(split, common, reordering, parts),
            **_spec_fields(split, common, reordering, num_accepted_tokens),
        )

    def _made_anew(
        self, split: RequestSplit, common: GDNCommonMetadata
    ) -> tuple[Reordering | None, SequenceParts | None]:
        """Returns what the layers need on the device beyond the scheduler's tensors: the
        Reordering, None unless there are speculative requests and prefills, and the SequenceParts,
        None if there are only speculative requests."""
        if split.is_speculative_alone:
            return None, None
        if not split.num_prefills:
            return None, decode_sequences(split, common.query_start_loc, common.seq_lens)
        if self.tables == "device":
            return _computed(split, common)
        return self._uploaded(split)

    def _uploaded(self, split: RequestSplit) -> tuple[Reordering | None, SequenceParts]:
        """Returns the Reordering, if kinds are mixed, and the SequenceParts of a batch with
        prefills, planned on the host and sent by one copy without a wait."""
        prefills = plan_prefills(split, with_tables=self.tables == "host")
        starts = torch.from_numpy(starts_of(split.non_spec_query_lens))
        chunks = prepare_chunk_indices(starts, CHUNK_TOKENS).numpy()
        plans = {
            "prefills": prefills.arrays,
            "convolution": {"sequence": chunks[:, 0], "offset": chunks[:, 1] * CHUNK_TOKENS},
        }
        if split.is_mixed:
            plans["reordering"] = plan_reordering(split)
        on_device = upload_plans(plans, self.device, self.ring)
        reordering = Reordering(**on_device["reordering"]) if split.is_mixed else None
        sequence, offset = on_device["convolution"].values()
        return reordering, SequenceParts(
            on_device["prefills"]["has_initial_state"],
            ConvMetadata(sequence, offset, len(starts) - 1, split.num_non_spec_tokens),
            prefills.apply(on_device["prefills"]),
        )


def _computed(
    split: RequestSplit, common: GDNCommonMetadata
) -> tuple[Reordering | None, SequenceParts]:
    if not split.is_mixed:
        return None, scan_sequences(split, common.query_start_loc, common.seq_lens)
    reordering = reorder_on_device(split, common.query_start_loc)
    seq_lens = common.seq_lens.index_select(0, reordering.non_spec_rows)
    return reordering, scan_sequences(split, reordering.non_spec_query_start_loc, seq_lens)


def _non_spec_fields(
    split: RequestSplit,
    common: GDNCommonMetadata,
    reordering: Reordering | None,
    parts: SequenceParts | None,
) -> NonSpecFields:
    if parts is None:
        return {}
    starts, slots = common.query_start_loc, common.state_indices[:, 0]
    if reordering:
        starts = reordering.non_spec_query_start_loc
        slots = slots.index_select(0, reordering.non_spec_rows)
    slots = slots.contiguous()
    fields: NonSpecFields = {
        "non_spec_query_start_loc": starts,
        "non_spec_state_indices": slots,
        "has_initial_state": parts.has_initial_state,
        "conv_metadata": parts.conv_metadata,
    }
    if (prefills := parts.prefills) is None:
        return fields
    return fields | {
        "prefill_query_start_loc": prefills.query_start_loc,
        "prefill_state_indices": slots[split.num_decodes :],
        "prefill_has_initial_state": prefills.has_initial_state,
        "chunk_indices": prefills.chunk_indices,
        "chunk_offsets": prefills.chunk_offsets,
    }


def _spec_fields(
    split: RequestSplit,
    common: GDNCommonMetadata,
    reordering: Reordering | None,
    num_accepted_tokens: torch.Tensor | None,
) -> SpecFields:
    # If num_accepted_tokens is None, no request is speculative: `checked_speculation` checks that.
    if not split.num_spec_decodes or num_accepted_tokens is None:
        return {}
    if not reordering:
        return {
            "spec_query_start_loc": common.query_start_loc,
            "spec_state_indices": common.state_indices.contiguous(),
            "num_accepted_tokens": num_accepted_tokens,
        }
    rows = reordering.spec_rows
    return {
        "spec_query_start_loc": reordering.spec_query_start_loc,
        "spec_state_indices": common.state_indices.index_select(0, rows),
        "num_accepted_tokens": num_accepted_tokens.index_select(0, rows),
        "spec_token_indices": reordering.spec_token_indices,
        "non_spec_token_indices": reordering.non_spec_token_indices,
    }
