"""The angles of rotary positions, computed once for every position there can be."""

from __future__ import annotations

import torch


def cos_sin_table(
    num_positions: int, head_size: int, theta: float, device: torch.device
) -> torch.Tensor:
    """[num_positions, head_size] float32: the cosines of a position's head_size / 2 angles, then
    their sines. Nothing is uploaded.

    Pair i, the numbers i and i + head_size / 2 of a head, turns by theta^(-2i / head_size) a token.
    """
    # In float32 the angle of position 100,000 would be off by a hundredth.
    positions = torch.arange(num_positions, dtype=torch.float64, device=device)
    pairs = torch.arange(0, head_size, 2, dtype=torch.float64, device=device)
    angles = positions[:, None] * torch.pow(theta, -pairs / head_size)
    return torch.cat([angles.cos(), angles.sin()], dim=1).to(torch.float32)
