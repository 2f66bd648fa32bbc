"""The prefills of a mixed step (chapter 03, hard, 45 minutes).

A step may have decodes, with one token each, and prefills after them. Only the prefills are
computed in chunks, and their tokens are cut out of the step for that. So their starts count from
the first of these tokens, and both tables are made of exactly these starts. If the batch has
requests with draft tokens, no request counts as a decode: requests with one token are prefills too,
and the tables must have them.

The function below gets all that right. But it asks the device which requests are decodes, one after
the other, although the host knows. It reads the starts back to make a table of them, and it uploads
in pieces.

Compute everything on the host, and upload it once without a wait. If there are no prefills, upload
nothing.

You need to know both tables, of `chunk_indices` and `chunk_offsets`, and packed uploads.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_metadata_builder.py

Stuck?         .venv/bin/debubble hint metadata_builder
Start afresh?  .venv/bin/debubble reset metadata_builder
"""

from __future__ import annotations

import torch

from katas.gdn.given import (
    GDNCommonMetadata,
    PrefillMetadata,
    prepare_chunk_indices,
    prepare_chunk_offsets,
)


# Yours to edit, from here on.
def build_prefill_metadata(
    common: GDNCommonMetadata, num_draft_tokens_cpu: torch.Tensor
) -> PrefillMetadata:
    """Returns the metadata of a step's prefills, in chunks of 64 tokens (vLLM #38361).

    `num_draft_tokens_cpu` [num_requests] has integers on the host: 0 or more draft tokens for a
    speculative request, and -1 for any other request. The metadata leaves out speculative requests:
    their tokens are removed before the prefills are computed.
    """
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
