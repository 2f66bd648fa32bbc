"""Scores divided by the temperature of their request: by one kernel for all requests."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current


def scale_rows(scores: torch.Tensor, temperatures: Sequence[float]) -> torch.Tensor:
    """Returns each row of `scores` [R, V] divided by the temperature of its request. A temperature
    of 0 leaves the row as it is. The result has the dtype of `scores`, and temperatures may be
    rounded to it."""
    accelerator = current()
    divisors = [temperature or 1.0 for temperature in temperatures]
    column = torch.tensor(divisors, dtype=scores.dtype, pin_memory=accelerator.pin_memory)
    return scores / column.to(accelerator.device, non_blocking=True)[:, None]
