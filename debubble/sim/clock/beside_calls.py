"""Compilations and allocations on sim, which the host does beside its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from debubble.contract.compiles import Compiled, Key
from debubble.contract.recorded import Also
from debubble.contract.source_line import SourceLine
from debubble.timeline.event import HOST_LANE, EventKind

from ..memory import caching

COMPILE_US = 200_000.0
"""The time that Triton 3.7 takes to compile a kernel of four lines on two processors: measured
without a GPU, which Triton's compiler does not need. Larger kernels take seconds."""


class Host(Protocol):
    """The part of the simulated device that is used here."""

    lock: threading.RLock
    now: float

    def host_works(self, microseconds: float) -> None: ...
    def note(self, *what: Any, **more: Any) -> int | None: ...
    def source(self) -> SourceLine | None: ...


class BesideCalls:
    """Counts compilations and allocations of a device. A recording that asks for them has an event
    for each; otherwise they take no time.

    An allocation has no length: what `cudaMalloc` takes was not measured yet.
    """

    def __init__(self, host: Host, stream: Callable[[], int]) -> None:
        """Takes a function that returns the current stream's number."""
        self._host, self._stream = host, stream
        self.compiled = Compiled()
        self.also: frozenset[Also] = frozenset()

    def compiles(self, kernel: object, name: str, key: Key) -> None:
        """Counts a compilation unless the kernel was compiled with this key. Raises
        UnexpectedCompile, before anything changes, in a region that forbids it."""
        missed = self.compiled.misses(kernel, name, key)
        if missed is not None and "compile" in self.also:
            self._note("compile", name, COMPILE_US, call=missed)

    def allocates(self, name: str, nbytes: int) -> None:
        """Notes that the driver allocates `nbytes` by its function `name`."""
        if "alloc" in self.also:
            self._note("alloc", name, 0.0, nbytes=nbytes)

    def count_memory(self) -> None:
        """Follows the allocator of device memory from now on."""
        caching.DEVICE.begin(self._stream)

    def start(self, also: frozenset[Also]) -> None:
        self.also = also
        if "alloc" in also:
            self.count_memory()
            caching.DEVICE.grew = self.allocates
            caching.PINNED.grew = self.allocates

    def stop(self) -> None:
        self.also = frozenset()
        caching.DEVICE.grew = caching.PINNED.grew = None

    def _note(
        self,
        kind: EventKind,
        name: str,
        microseconds: float,
        nbytes: int = 0,
        call: str | None = None,
    ) -> None:
        host = self._host
        with host.lock:
            source = host.source()
            host.note(
                kind, name, HOST_LANE, host.now, microseconds, source, nbytes=nbytes, call=call
            )
            host.host_works(microseconds)
