"""The indices of the tokens that a fast prefill computes, in a buffer that graphs read."""

from __future__ import annotations

import torch

from ..checks.rows import check_indices, share_memory


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
