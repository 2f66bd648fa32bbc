"""Multiplies by a factor that is exactly 1 for small scores."""

from __future__ import annotations

import torch


def limit_scores(scores: torch.Tensor, limit: float) -> torch.Tensor:
    """Returns `scores` [R, V], all scaled down so that none is larger than `limit`, or a copy if
    none is. `limit` is above 0."""
    largest = scores.amax()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    return scores * factor
