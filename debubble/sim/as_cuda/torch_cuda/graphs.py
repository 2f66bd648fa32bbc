"""`torch.cuda.CUDAGraph` and `torch.cuda.graph`, which capture and replay graphs of sim."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import Any
from weakref import WeakValueDictionary

import torch

from ...clock.device import SimDevice
from ...clock.graph import SimGraph
from ...memory.blocks import DeviceBlock
from ..refusing import refusing

_pools = itertools.count(1)
_memory: WeakValueDictionary[Any, DeviceBlock] = WeakValueDictionary()


def graph_pool_handle() -> tuple[int, int]:
    """Returns a new id for a memory pool. Sim's graphs share no bytes of a pool, but the replays of
    two graphs with the same pool count as writes to the same memory."""
    return 0, next(_pools)


def _memory_of(pool: Any) -> DeviceBlock:
    return _memory.setdefault(pool, DeviceBlock(torch.empty(1, device="meta")))


class CUDAGraph:
    of: SimDevice
    """The simulated device whose work is captured, set on a subclass for each accelerator."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._pool = graph_pool_handle()
        self.reset()

    def capture_begin(
        self, pool: Any = None, capture_error_mode: str = "global", *more: Any, **options: Any
    ) -> None:
        self._pool = pool or self._pool
        self._graph.pool = _memory_of(self._pool)
        self._capture.enter_context(self._graph.capture())

    def capture_end(self) -> None:
        self._capture.close()

    def replay(self) -> None:
        self._graph.replay()

    def reset(self) -> None:
        """Replaces the graph by an empty one."""
        self._graph, self._capture = SimGraph(self.of), ExitStack()

    def pool(self) -> tuple[int, int]:
        return self._pool

    def instantiate(self) -> None:
        """Does nothing: on sim a graph is ready once its capture has ended."""

    def enable_debug_mode(self) -> None:
        """Does nothing: `debug_dump` is refused on sim."""

    debug_dump = staticmethod(
        refusing("CUDAGraph.debug_dump", "sim records a graph as a Python list")
    )
    raw_cuda_graph = staticmethod(
        refusing("CUDAGraph.raw_cuda_graph", "the driver has no graph of sim's")
    )


class graph:
    """Replaces `with torch.cuda.graph(g):`, which captures its block on `stream`, or on a capture
    stream that all such blocks share."""

    default_capture_stream: Any = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        *more: Any,
        **options: Any,
    ) -> None:
        if stream is None and type(self).default_capture_stream is None:
            type(self).default_capture_stream = torch.cuda.Stream()
        self.stream = stream or type(self).default_capture_stream
        self.cuda_graph, self.pool = cuda_graph, pool

    def __enter__(self) -> None:
        self.stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool)
        except BaseException:
            self.stream.__exit__(None, None, None)
            raise

    def __exit__(self, *exception: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream.__exit__(*exception)
