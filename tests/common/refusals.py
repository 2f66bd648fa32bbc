"""Refusals of bad input on the host: before any upload, and with nothing half changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import debubble


def changed(args: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with other values: `changes` has, by name, a new value or a function of
    the old one."""
    values = {name: new(args[name]) if callable(new) else new for name, new in changes.items()}
    return args | values


def expect_refused(
    accelerator, call: Callable[[], Any], message: str, unchanged: tuple[torch.Tensor, ...]
) -> None:
    """Checks that the call raises ValueError with text that matches `message`, queues nothing on
    the device, and changes nothing."""
    as_they_were = [tensor.clone() for tensor in unchanged]
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, pytest.raises(ValueError, match=message):
        call()
    assert timeline.events == []
    for tensor, was in zip(unchanged, as_they_were, strict=True):
        assert torch.equal(tensor.cpu(), was.cpu())
