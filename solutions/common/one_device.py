"""Checks on the host that all tensors of a kernel are on one device."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def check_one_device(tensors: Mapping[str, torch.Tensor | None]) -> None:
    """Raises ValueError, naming the tensor, if a tensor is on another device than the first one.
    `tensors` has them by name; None is skipped."""
    first_name, first = next(iter(tensors.items()))
    assert first is not None, "the others are compared with it"
    for name, tensor in tensors.items():
        if tensor is not None and tensor.device != first.device:
            raise ValueError(
                f"{name} is on {tensor.device}, and {first_name} on {first.device}: use one device"
            )
