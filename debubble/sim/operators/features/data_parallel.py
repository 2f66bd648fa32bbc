"""`torch.nn.DataParallel` on sim, which is one device and gets the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from debubble.private.torch import core


def install() -> None:
    """Adds to PyTorch the functions that split a batch over devices and copy weights to them, which
    only a PyTorch built for GPUs has."""
    for name, function in {"_scatter": _scatter, "_broadcast_coalesced": _broadcast}.items():
        if not hasattr(core, name):
            setattr(core, name, function)


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], chunk_sizes: Any, dim: int, streams: Any
) -> tuple[torch.Tensor, ...]:
    sizes = chunk_sizes or -(-tensor.size(dim) // len(devices))
    return tuple(
        part.to(torch.device("sim", device), non_blocking=True)
        for part, device in zip(tensor.split(sizes, dim), devices, strict=False)
    )


def _broadcast(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    return [[t.to(torch.device("sim", device)) for t in tensors] for device in devices]
