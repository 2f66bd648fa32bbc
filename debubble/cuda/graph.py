"""CUDA graphs behind the same two calls as on sim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

import torch

from ..contract.capture_error import IS_EMPTY, IS_FULL, NESTED, CaptureError
from ..contract.garbage import no_collection
from ..contract.host_syncs import allow_host_sync
from .trace.marks import marked


class CudaGraph:
    """What was captured, or nothing yet."""

    _one_is_captured: ClassVar[bool] = False
    """In this process, by whatever thread: beginning a second capture would break the first."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._is_full = False

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Records the work of the block instead of running it, on a stream of its own. Waits for
        the device first. After an error everything is as before, and the graph is empty."""
        if CudaGraph._one_is_captured or torch.cuda.is_current_stream_capturing():
            raise CaptureError(NESTED)
        if self._is_full:
            raise CaptureError(IS_FULL)
        stream, captured = torch.cuda.current_stream(), torch.cuda.graph(self._graph)
        CudaGraph._one_is_captured = True
        try:
            with marked():
                captured.__enter__()
            try:
                with no_collection():
                    yield
            except BaseException:
                # An error breaks the capture too, and says so when that ends: not the one to tell.
                with suppress(RuntimeError):
                    captured.__exit__(None, None, None)
                raise
            captured.__exit__(None, None, None)
        except BaseException:
            self._graph = torch.cuda.CUDAGraph()
            torch.cuda.set_stream(stream)
            _mend_random_numbers()
            raise
        finally:
            CudaGraph._one_is_captured = False
        self._is_full = True

    def replay(self) -> None:
        """One launch for all of the captured work."""
        if not self._is_full:
            raise CaptureError(IS_EMPTY)
        with marked():
            self._graph.replay()


def _mend_random_numbers() -> None:
    """A capture that was broken leaves PyTorch's generator waiting for its end, and refusing to
    draw; the end of any other capture is good enough."""
    with suppress(RuntimeError), allow_host_sync(), torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")
