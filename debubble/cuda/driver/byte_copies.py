"""Copies by address: a single copy, or a batch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property

import numpy as np
import torch

from debubble.contract.addresses import NEEDS_A_STREAM, check_pieces

from ..trace.marks import marked, marked_copy
from .batch_copy import BatchCopy
from .driver import Driver

LEGACY = (0, 1)
"""The two handles that CUDA has for the default stream."""


class ByteCopies:
    """The driver's copies from address to address, single or in batches, on the current stream,
    without waiting."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @cached_property
    def batch(self) -> BatchCopy | None:
        return BatchCopy.available(self._driver)

    def copy(self, source: int, target: int, nbytes: int) -> None:
        if nbytes == 0:
            return
        if nbytes < 0 or not (source and target):
            what = f"{nbytes} bytes from {source:#x} to {target:#x}"
            raise RuntimeError(f"invalid value: {what} can't be copied")
        with _marked("cuMemcpyAsync"):
            self._driver.call("cuMemcpyAsync", target, source, nbytes, _stream())

    def copy_batch(
        self, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray, any_order: bool
    ) -> None:
        check_pieces(sources, targets, sizes)
        if self.batch is None:
            raise RuntimeError(
                "this machine has no batch copy: it takes a driver of CUDA 12.8 or newer"
            )
        if len(sources) == 0:
            return
        stream = _stream()
        if stream in LEGACY:
            raise RuntimeError(NEEDS_A_STREAM)
        if np.minimum.reduce(sizes) <= 0:
            i = int((sizes <= 0).argmax())
            raise RuntimeError(f"invalid value: descriptor {i} copies {int(sizes[i])} bytes")
        with _marked("cuMemcpyBatchAsync"):
            self.batch(sources, targets, sizes, stream, any_order)


def _stream() -> int:
    return torch.cuda.current_stream().cuda_stream


def _marked(function: str) -> AbstractContextManager[object]:
    """Returns a context manager that marks a copy by this driver function in the recording. In a
    capture it only marks the learner's line: a capture copies nothing yet, and a replay's copies
    belong to the replay's call."""
    return marked() if torch.cuda.is_current_stream_capturing() else marked_copy(function)
