"""A table that the host makes row by row, from lengths that it reads from the device."""

from __future__ import annotations

import torch

from ...rule.chunks import FLA_CHUNK_SIZE


def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [NT, 2] int32 on the device: (sequence, chunk in this sequence), in order."""
    rows = []
    for sequence, length in enumerate(cu_seqlens.diff().tolist()):
        for chunk in range(-(-length // chunk_size)):
            rows.append((sequence, chunk))
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)
