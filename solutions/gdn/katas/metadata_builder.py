"""What the chunked kernels ask of a step: its prefills alone, by one upload."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from solutions.common.host_integers import host_integers
from solutions.common.packed_upload import upload_plans

from ..host_tables import plan_chunk_tables
from ..requests.batch import CommonAttentionMetadata, checked_lengths, split_requests, starts_of


@dataclass(frozen=True)
class PrefillMetadata:
    """Without prefills there are no tensors."""

    num_decodes: int
    """Requests of one token that go on from a state, ahead of all others; 0 next to speculative
    requests, where they are prefills."""
    num_prefills: int
    """With the requests without tokens that pad a batch in which there are prefills."""
    num_prefill_tokens: int
    query_start_loc: torch.Tensor | None = None
    """[num_prefills + 1] int32 on the device, from 0 to num_prefill_tokens: starts among the
    prefills' tokens."""
    has_initial_state: torch.Tensor | None = None
    """[num_prefills] bool on the device: whether tokens were computed before."""
    chunk_indices: torch.Tensor | None = None
    """[NT, 2] int32 on the device, of this query_start_loc."""
    chunk_offsets: torch.Tensor | None = None
    """[num_prefills + 1] int64 on the device, of this query_start_loc."""


def build_prefill_metadata(
    common: CommonAttentionMetadata, num_draft_tokens_cpu: torch.Tensor
) -> PrefillMetadata:
    """The prefills of a step, in chunks of 64 tokens (vLLM #38361).

    `num_draft_tokens_cpu` [num_requests] integers on the host: the draft tokens of a speculative
    request, 0 or more, and -1 for any other one. Speculative requests are no part of this, and
    their tokens are taken out before the prefills are computed.
    """
    device = common.query_start_loc.device
    lengths = checked_lengths(common, device)
    is_speculative = host_integers("num_draft_tokens_cpu", num_draft_tokens_cpu) >= 0
    split = split_requests(lengths, is_speculative)
    if not split.num_prefills:
        return PrefillMetadata(split.num_decodes, num_prefills=0, num_prefill_tokens=0)
    starts = starts_of(split.non_spec_query_lens[split.num_decodes :])
    num_computed = lengths.num_computed[~is_speculative][split.num_decodes :]
    requests = {"query_start_loc": starts, "has_initial_state": num_computed > 0}
    tables = plan_chunk_tables(starts)
    on_device = upload_plans({"requests": requests, "tables": tables.arrays}, device)
    return PrefillMetadata(
        split.num_decodes,
        split.num_prefills,
        split.num_prefill_tokens,
        **on_device["requests"],
        **tables.apply(on_device["tables"])._asdict(),
    )
