"""A function in two pieces: Python looks at the largest score in between."""

from __future__ import annotations

import torch


def limit_scores(scores: torch.Tensor, limit: float) -> torch.Tensor:
    largest = scores.amax()
    if largest > limit:
        return scores * (limit / largest)
    return scores.clone()
