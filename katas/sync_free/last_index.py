"""A number that need not travel (chapter 02).

When layers share their keys and values, only the rows that give logits have to be computed in all
of them. A captured graph reads the indices of these rows from a buffer, at a padded size, so the
rest of the buffer must hold valid indices too: the last one, again and again. The function below
works. But `fill_` is handed a number, and to get it the host waits for the device.

Write the tail without asking what the last index is.

Edit this file, then run

    pytest katas/sync_free/test_last_index.py

Stuck?         debubble hint last_index
Start afresh?  debubble reset last_index
"""

from __future__ import annotations

import torch


def _prepare_kv_sharing_fast_prefill(
    buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int
) -> torch.Tensor:
    """[num_padded] int32, a view of `buffer`: logits_indices, then its last one again and again
    (vLLM #41429).

    `buffer`: [max_tokens] int32 on the device, the same one in every step. Its whole tail is
    written, so that whatever part of it a graph reads holds valid indices, and none of an earlier,
    larger step. `logits_indices`: [n] int32 or int64 on the device, may be a part of `buffer`;
    their values are not looked at.
    """
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    buffer[num_indices:].fill_(logits_indices[-1].item())
    return buffer[:num_padded]
