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

    pytest katas/gdn/test_metadata_builder.py

Stuck?         debubble hint metadata_builder
Start afresh?  debubble reset metadata_builder
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

HostIntegers = np.ndarray | torch.Tensor
FLA_CHUNK_SIZE = 64


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


# region Given: what the code above uses. You may change it, and need not.


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


# endregion
