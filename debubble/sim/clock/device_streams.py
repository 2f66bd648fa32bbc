"""The streams of a simulated device, and each thread's current one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from debubble.contract.backward_pass import UNDER_WAY, next_node

from .backward_streams import BackwardStreams
from .streams import SimStream, StreamOwner


class _OfThread(threading.local):
    stream: SimStream | None = None
    """The stream on which the thread queues work, or None if it chose none."""
    first_node = 0
    """The number of the first autograd node that the thread made after it chose that stream."""

    def __init__(self) -> None:
        self.outer: list[SimStream | None] = []
        """The streams chosen before each of the enclosing `with stream:` blocks, the outermost
        first."""


class DeviceStreams:
    """The streams of `device`, by number: the default stream is number 0."""

    def __init__(self, device: StreamOwner) -> None:
        self._device = device
        self.default = SimStream(device, 0)
        self.all = [self.default]
        self._lanes = {0: 0}
        self._local = _OfThread()
        self._backward = BackwardStreams(self.current, self.default)

    def new(self) -> SimStream:
        stream = SimStream(self._device, len(self.all))
        self.all.append(stream)
        return stream

    def current(self) -> SimStream:
        chosen = self._local.stream
        if chosen is None and UNDER_WAY and self._backward.are_several:
            return self._backward.current()
        return chosen or self.default

    def set(self, stream: SimStream | None) -> None:
        """Sets the calling thread's current stream. With None it is the default stream, or in a
        backward pass the stream on which the running node was made."""
        local = self._local
        self._backward.made_nodes(local.stream, local.first_node)
        local.stream, local.first_node = stream, next_node()

    def enter(self, stream: SimStream) -> None:
        self._local.outer.append(self._local.stream)
        self.set(stream)

    def leave(self) -> None:
        """Makes the stream current again that was current before `enter`."""
        self.set(self._local.outer.pop())

    @contextmanager
    def around_backward(self) -> Iterator[None]:
        """A context manager for the thread that calls a backward pass: runs each gradient on the
        stream of its forward operator."""
        self.set(self._local.stream)
        with self._backward.around():
            yield

    def lane_of(self, stream: int) -> str:
        """Returns the lane of the stream with this number, such as "stream 1". In each recording
        lanes are counted in the order of the streams' first work, as on CUDA, so that two
        recordings can be compared."""
        return f"stream {self._lanes.setdefault(stream, len(self._lanes))}"

    def start_lanes(self) -> None:
        """Counts the lanes of a new recording from 0."""
        self._lanes = {0: 0}
