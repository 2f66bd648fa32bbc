"""Scores divided by the temperature of their request: by a kernel for each request."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def scale_rows(scores: torch.Tensor, temperatures: Sequence[float]) -> torch.Tensor:
    scaled = scores.clone()
    for row, temperature in enumerate(temperatures):
        if temperature:
            scaled[row] /= temperature
    return scaled
