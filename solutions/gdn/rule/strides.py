"""How a tensor lies in memory, asked of its strides: a view to ask would cost the host a launch."""

from __future__ import annotations

import torch


def is_dense(tensor: torch.Tensor, first_dimension: int) -> bool:
    """Whether the dimensions from `first_dimension` (at least 1) on lie as in contiguous memory."""
    expected = 1
    for dimension in range(tensor.dim() - 1, first_dimension - 1, -1):
        size = tensor.shape[dimension]
        if size != 1 and tensor.stride(dimension) != expected:
            return False
        expected *= size
    return True
