"""The sync detector in its first version: what it reports is right, but it misses most waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..sync_detector import Wait, calling_line


class SyncDetector(TorchDispatchMode):
    """A detector that notes in `waits` only reads of single values, such as `.item()`."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[Wait] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        is_read = func is torch.ops.aten._local_scalar_dense.default
        if is_read and args[0].device.type != "cpu":
            self.waits.append(Wait("a value is read", *calling_line()))
        return func(*args, **kwargs)


@contextmanager
def allow_waits() -> Iterator[None]:
    """Has no effect yet: detectors note the waits in this block too."""
    # No wait is let through yet.
    yield
