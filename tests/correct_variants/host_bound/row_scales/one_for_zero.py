"""Puts 1 in the place of a temperature of 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current


def scale_rows(scores: torch.Tensor, temperatures: Sequence[float]) -> torch.Tensor:
    """Returns each row of `scores` [R, V] divided by the temperature of its request. A temperature
    of 0 leaves the row as it is."""
    divisors = [temperature or 1.0 for temperature in temperatures]
    column = torch.tensor(divisors, dtype=scores.dtype, pin_memory=current().pin_memory)
    column = column.to(scores.device, non_blocking=True)
    return scores / column[:, None]
