"""Copies by address: a single copy, or a batch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import NoReturn

import numpy as np
import torch

from debubble.contract.addresses import NEEDS_A_STREAM, check_pieces, extent_of
from debubble.private.torch import is_profiling, raw_stream_of

from ..trace.marks import marked, marked_copy
from .batch_copy import FUNCTION, BatchCopy
from .driver import Driver

_NO_MARK = nullcontext()
LEGACY = (0, 1)
"""The two handles that CUDA has for the default stream."""


class ByteCopies:
    """The driver's copies from address to address, single or in batches, on the current stream,
    without waiting."""

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver, self._device, self._raw_stream = driver, device, raw_stream_of()

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
            self._driver.call(
                "cuMemcpyAsync", target, source, nbytes, self._raw_stream(self._device)
            )

    def copy_batch(
        self, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray, any_order: bool
    ) -> None:
        check_pieces(sources, targets, sizes)
        batch = self.batch or _refuse()
        if len(sources) == 0:
            return
        stream = self._own_stream()
        if extent_of(sizes).smallest <= 0:
            i = int((sizes <= 0).argmax())
            raise RuntimeError(f"invalid value: descriptor {i} copies {int(sizes[i])} bytes")
        from_, to, nbytes = (array.ctypes.data for array in (sources, targets, sizes))
        with _marked(FUNCTION):
            batch(from_, to, nbytes, len(sizes), stream, any_order)

    def copy_lists(
        self, sources: int, targets: int, sizes: int, count: int, any_order: bool
    ) -> None:
        batch, stream = self.batch or _refuse(), self._own_stream()
        if not is_profiling.value:
            batch(sources, targets, sizes, count, stream, any_order)
            return
        with _marked(FUNCTION):
            batch(sources, targets, sizes, count, stream, any_order)

    def _own_stream(self) -> int:
        """Returns the handle of the current stream. Raises RuntimeError if that is the default
        one."""
        stream: int = self._raw_stream(self._device)
        if stream in LEGACY:
            raise RuntimeError(NEEDS_A_STREAM)
        return stream


def _refuse() -> NoReturn:
    raise RuntimeError("this machine has no batch copy: it takes a driver of CUDA 12.8 or newer")


def _marked(function: str) -> AbstractContextManager[object]:
    """Returns a context manager that marks a copy by this driver function in the recording, if a
    profiler runs. In a capture it only marks the learner's line: a capture copies nothing yet, and
    a replay's copies belong to the replay's call."""
    if not is_profiling.value:
        return _NO_MARK
    return marked() if torch.cuda.is_current_stream_capturing() else marked_copy(function)
