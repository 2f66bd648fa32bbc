"""The metadata that the chunked rule reads of a step: only its prefills, planned on the host."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from solutions.common.host_integers import host_integers
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed

from ..chunk_tables import prepare_chunk_tables
from .batch import (
    GDNCommonMetadata,
    RequestSplit,
    checked_lengths,
    split_requests,
    starts_of,
)


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


def build_prefill_metadata(
    common: GDNCommonMetadata, num_draft_tokens_cpu: torch.Tensor
) -> PrefillMetadata:
    """Returns the metadata of a step's prefills, in chunks of 64 tokens (vLLM #38361).

    `num_draft_tokens_cpu` [num_requests] has integers on the host: 0 or more draft tokens for a
    speculative request, and -1 for any other request. The metadata leaves out speculative requests:
    their tokens are removed before the prefills are computed.
    """
    device = common.query_start_loc.device
    lengths = checked_lengths(common, device)
    is_speculative = host_integers("num_draft_tokens_cpu", num_draft_tokens_cpu) >= 0
    plan = plan_prefills(split_requests(lengths, is_speculative))
    return plan.apply(upload_packed(plan.arrays, device))


def plan_prefills(split: RequestSplit, with_tables: bool = True) -> PrefillPlan:
    """Returns the metadata of a batch's prefills on the host, to be uploaded; its lengths are
    checked already. Without `with_tables` no chunk tables are made: `chunk_indices` and
    `chunk_offsets` stay None."""
    if not split.num_prefills:
        return PrefillPlan({}, split)
    starts = starts_of(split.non_spec_query_lens)
    # The prefills' tokens are cut out of the batch's, so counting starts at the first prefill
    # token.
    prefill_starts = starts[split.num_decodes :] - starts[split.num_decodes]
    arrays = {
        "query_start_loc": prefill_starts,
        "has_initial_state": split.lengths.num_computed[~split.is_speculative] > 0,
    }
    if with_tables:
        tables = prepare_chunk_tables(torch.from_numpy(prefill_starts))
        arrays |= {name: table.numpy() for name, table in tables._asdict().items()}
    return PrefillPlan(arrays, split)


@dataclass(frozen=True)
class PrefillPlan:
    """Metadata of a step's prefills on the host, ready for the upload. `arrays` has the tensors of
    PrefillMetadata under the same names, and is empty without prefills. Its `has_initial_state`
    includes the decodes before the prefills."""

    arrays: HostArrays
    split: RequestSplit

    def apply(self, on_device: DeviceArrays) -> PrefillMetadata:
        """Returns the metadata with its tensors on the device: the uploaded `arrays`, which are
        `on_device`, or views of them. Nothing is copied."""
        split = self.split
        tensors = dict(on_device)
        if tensors:
            tensors["has_initial_state"] = tensors["has_initial_state"][split.num_decodes :]
        return PrefillMetadata(
            split.num_decodes, split.num_prefills, split.num_prefill_tokens, **tensors
        )
