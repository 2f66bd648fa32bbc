"""Bad input is refused on the host: before anything is uploaded, and with nothing half changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import debubble


def expect_refused(
    accelerator, call: Callable[[], Any], message: str, unchanged: tuple[torch.Tensor, ...]
) -> None:
    """ValueError with words that match `message`; the device does nothing, and nothing changes."""
    as_they_were = [tensor.clone() for tensor in unchanged]
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, pytest.raises(ValueError, match=message):
        call()
    assert timeline.events == []
    for tensor, was in zip(unchanged, as_they_were, strict=True):
        assert torch.equal(tensor.cpu(), was.cpu())
