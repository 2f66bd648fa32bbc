"""CUDA graphs behind the same two calls as on sim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from .marks import marked


class CudaGraph:
    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Records the work of the block instead of running it, on a stream of its own."""
        with ExitStack() as stack:
            with marked():
                stack.enter_context(torch.cuda.graph(self._graph))
            yield

    def replay(self) -> None:
        """One launch for all of the captured work."""
        with marked():
            self._graph.replay()
