"""CUDA graphs with the same two calls as on sim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

import torch

from ..contract.capture_error import IS_EMPTY, IS_FULL, NESTED, CaptureError
from ..contract.host_syncs import allow_host_sync
from ..contract.python.garbage import no_collection
from .trace.marks import marked


class CudaGraph:
    """A CUDA graph: empty until `capture()`, then replayed by `replay()`."""

    _one_is_captured: ClassVar[bool] = False
    """True while any thread of this process captures: beginning a second capture would break the
    first."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._is_full = False

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Captures the work of the block instead of running it, on a stream of its own. Waits for
        the device first. Raises CaptureError inside another capture and if the graph is full. After
        an error all state is as before, and the graph is empty."""
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
                # The error has broken the capture too, which raises when it ends: the first error
                # is the one to report.
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
        """Runs the captured work again, as one launch. Raises CaptureError if the graph is
        empty."""
        if not self._is_full:
            raise CaptureError(IS_EMPTY)
        with marked():
            self._graph.replay()


def _mend_random_numbers() -> None:
    """Makes PyTorch's random number generator work again after a broken capture, whose end it would
    otherwise wait for, refusing to draw. A short capture of its own resets it."""
    with suppress(RuntimeError), allow_host_sync(), torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")
