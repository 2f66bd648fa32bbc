"""Random weights, of PyTorch's seed as it is, that keep numbers at about their size."""

from __future__ import annotations

import torch

from .shape import DecoderShape


def projection(rows: int, columns: int, shape: DecoderShape, device: torch.device) -> torch.Tensor:
    """[rows, columns]: its products are about as large as the numbers that it is given."""
    return torch.randn(rows, columns, dtype=shape.dtype, device=device).mul_(columns**-0.5)


def norm_weight(shape: DecoderShape, device: torch.device) -> torch.Tensor:
    """Of a norm, [hidden_size], around 1."""
    weight = torch.randn(shape.hidden_size, dtype=shape.dtype, device=device)
    return weight.mul_(0.1).add_(1.0)
