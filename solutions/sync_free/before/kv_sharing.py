"""The index buffer as it was: its tail is filled with a number that the host asks for."""

from __future__ import annotations

import torch


def _prepare_kv_sharing_fast_prefill(
    buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int
) -> torch.Tensor:
    """[num_padded] int32, a view of `buffer`. One host sync."""
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    buffer[num_indices:].fill_(logits_indices[-1].item())
    return buffer[:num_padded]
