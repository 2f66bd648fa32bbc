"""The prefills of a step, found by reading from the device what the host knows too."""

from __future__ import annotations

import torch

from ...before import prepare_chunk_indices, prepare_chunk_offsets
from ...requests.batch import GDNCommonMetadata
from ...requests.prefills import PrefillMetadata


def build_prefill_metadata(
    common: GDNCommonMetadata, num_draft_tokens_cpu: torch.Tensor
) -> PrefillMetadata:
    """Returns the metadata of a step's prefills, in chunks of 64 tokens."""
    query_lens = common.query_start_loc.diff()
    num_computed = common.seq_lens - query_lens
    is_speculative = num_draft_tokens_cpu.to(query_lens.device) >= 0
    num_decodes = 0
    if not is_speculative.any():
        while num_decodes < len(query_lens):
            if query_lens[num_decodes] != 1 or num_computed[num_decodes] == 0:
                break
            num_decodes += 1
    prefill_lens = query_lens[~is_speculative][num_decodes:]
    num_prefill_tokens = int(prefill_lens.sum())
    if num_prefill_tokens == 0:
        return PrefillMetadata(num_decodes, num_prefills=0, num_prefill_tokens=0)
    # The starts differ from the batch's: the tokens of the prefills are numbered from the first
    # of them.
    ends = prefill_lens.cumsum(0, dtype=torch.int32)
    starts = torch.nn.functional.pad(ends, (1, 0))
    return PrefillMetadata(
        num_decodes,
        len(prefill_lens),
        num_prefill_tokens,
        query_start_loc=starts,
        has_initial_state=num_computed[~is_speculative][num_decodes:] > 0,
        chunk_indices=prepare_chunk_indices(starts),
        chunk_offsets=prepare_chunk_offsets(starts),
    )
