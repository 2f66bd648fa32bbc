"""A number that need not travel (chapter 02, easy, 10 minutes).

If layers share their keys and values, only the rows that give logits have to be computed in all
layers. A captured graph reads the indices of these rows from a buffer, at a padded size. So the
rest of the buffer must hold valid indices too: the last index, again and again. The function below
works. But `fill_` takes a number, and to get this number the host waits for the device.

Fill the rest of the buffer without reading the last index on the host. Keep refusing the inputs
that the function refuses.

You need to know which indices of tensors are views, and which make a number of them.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_last_index.py

Stuck?         .venv/bin/debubble hint last_index
Start afresh?  .venv/bin/debubble reset last_index
"""

from __future__ import annotations

import torch

from katas.sync_free.given import check_indices, share_memory


# Yours to edit, from here on.
def _prepare_kv_sharing_fast_prefill(
    buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int
) -> torch.Tensor:
    """Returns [num_padded] int32, a view of `buffer`: logits_indices, then its last index repeated
    (vLLM #41429).

    `buffer` is [max_tokens] int32 on the device, the same in every step. Its whole tail is written,
    so any part of it that a graph reads holds valid indices, and none of an earlier, larger step.
    `logits_indices` is [n] int32 or int64 on the device, and may be a part of `buffer`. Its values
    are not checked.
    """
    check_indices(buffer, logits_indices, num_padded)
    if share_memory(buffer, logits_indices):
        logits_indices = logits_indices.clone()
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    buffer[num_indices:].fill_(logits_indices[-1].item())
    return buffer[:num_padded]
