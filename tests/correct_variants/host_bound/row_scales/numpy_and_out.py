"""Fills pinned memory through NumPy, and divides into a new tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current


def scale_rows(scores: torch.Tensor, temperatures: Sequence[float]) -> torch.Tensor:
    """Returns each row of `scores` [R, V] divided by the temperature of its request. A temperature
    of 0 leaves the row as it is."""
    staged = torch.empty(
        (len(temperatures), 1),
        dtype=torch.promote_types(scores.dtype, torch.float32),
        pin_memory=current().pin_memory,
    )
    divisors = staged.numpy()
    divisors[:, 0] = temperatures
    divisors[divisors == 0] = 1
    column = staged.to(scores.device, non_blocking=True)
    return torch.div(scores, column, out=torch.empty_like(scores))
