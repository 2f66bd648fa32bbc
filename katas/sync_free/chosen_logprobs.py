"""The tokens that requests ask for (chapter 02, medium, 25 minutes).

A request may ask for the logprobs of certain tokens, besides that of the sampled token. The
function below gathers the ids of these tokens, one row for each request, for a kernel to look up.
It works. But it uploads each request's ids separately, and waits each time, in the middle of
sampling.

Upload the ids and the counts of all rows at once, pinned if `current().pin_memory` is true, and
without a wait. Take as many kernels for 16 rows as for 2. The host does not know the sampled tokens
yet: leave column 0 to the device. The kernel reads by address, so both tensors must be contiguous.

You need to know `index_copy_` and `scatter_`, and pinned uploads.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_chosen_logprobs.py

Stuck?         .venv/bin/debubble hint chosen_logprobs
Start afresh?  .venv/bin/debubble reset chosen_logprobs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from katas.sync_free.given import ChosenTokens, check_requested


# Yours to edit, from here on.
def chosen_tokens(
    requested: Mapping[int, Sequence[int]], sampled: torch.Tensor, vocab_size: int
) -> ChosenTokens | None:
    """Returns the ids of each row on the device, or None if `requested` is empty (vLLM #41429).

    `requested` maps rows to the ids that they request, in order; rows may be missing, lists empty.
    `sampled` is [num_rows] integers on the device, which the host doesn't know yet. Raises
    ValueError for a row that is not in the batch, and for an id that is not in [0, vocab_size).
    """
    if not requested:
        return None
    check_requested(requested, len(sampled), vocab_size)
    device = sampled.device
    width = 1 + max(len(token_ids) for token_ids in requested.values())
    ids = torch.zeros(len(sampled), width, dtype=torch.int32, device=device)
    counts = torch.ones(len(sampled), dtype=torch.int32, device=device)
    ids[:, 0] = sampled
    for row, token_ids in requested.items():
        count = 1 + len(token_ids)
        ids[row, 1:count] = torch.tensor(token_ids, dtype=torch.int32, device=device)
        counts[row : row + 1] = count
    return ChosenTokens(ids, counts)
