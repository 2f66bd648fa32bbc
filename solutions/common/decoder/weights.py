"""Random weights, drawn from PyTorch's current seed, that keep activations at about their size."""

from __future__ import annotations

import torch

from .shape import DecoderShape


def projection(rows: int, columns: int, shape: DecoderShape, device: torch.device) -> torch.Tensor:
    """Returns a random weight [rows, columns] of `shape.dtype`, scaled so that its products are
    about as large as its inputs."""
    return torch.randn(rows, columns, dtype=shape.dtype, device=device).mul_(columns**-0.5)


def norm_weight(shape: DecoderShape, device: torch.device) -> torch.Tensor:
    """Returns a random weight for a norm, [hidden_size] of `shape.dtype`, with numbers around 1."""
    weight = torch.randn(shape.hidden_size, dtype=shape.dtype, device=device)
    return weight.mul_(0.1).add_(1.0)
