"""Computes both results and chooses on the device."""

from __future__ import annotations

import torch


def limit_scores(scores: torch.Tensor, limit: float) -> torch.Tensor:
    """Returns `scores` [R, V], all scaled down so that none is larger than `limit`, or a copy if
    none is. `limit` is above 0."""
    largest = scores.amax()
    return torch.where(largest > limit, scores * (limit / largest), scores)
