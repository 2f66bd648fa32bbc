"""A function that `torch.compile` compiles in one piece: no Python looks at the device's values."""

from __future__ import annotations

import torch


def limit_scores(scores: torch.Tensor, limit: float) -> torch.Tensor:
    """Returns `scores` [R, V], all scaled down so that none is larger than `limit`, or a copy if
    none is. `limit` is above 0."""
    factor = (limit / scores.amax()).clamp(max=1.0)
    return torch.where(factor > 0, scores * factor, scores)
