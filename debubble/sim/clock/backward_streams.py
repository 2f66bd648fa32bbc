"""Gradients are computed on the streams of their forwards, as PyTorch's autograd does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from debubble.contract import backward_pass
from debubble.contract.backward_pass import BackwardPass

from .streams import SimStream

MOST_SPANS = 1024
"""Spans of nodes that are remembered of a thread."""


class _Span(NamedTuple):
    """Nodes `first` to `end - 1` of a thread were made while it queued work on `stream`."""

    first: int
    end: int
    stream: SimStream


class BackwardStreams:
    """The stream of each node of a backward pass.

    PyTorch makes the streams of one pass wait for each other where they hand over gradients, and
    makes the caller's stream wait for all of them. Here each stream that a pass comes to waits for
    the stream before it, so the last one knows of all.
    """

    def __init__(self, current_stream: Callable[[], SimStream], default: SimStream) -> None:
        self._current_stream, self._default = current_stream, default
        self._spans: dict[int, list[_Span]] = {}
        """By the thread that made the nodes."""
        self._last: dict[BackwardPass, SimStream] = {}
        """The stream that each pass came to last."""
        self.are_several = False
        """True once a node was made, or a pass begun, on another stream than the default one."""

    def made_nodes(self, stream: SimStream | None, first: int) -> None:
        """Notes that the running thread's nodes from number `first` on were made on `stream`."""
        end = backward_pass.next_node()
        if stream is None or stream is self._default or end == first:
            return
        self.are_several = True
        spans = self._spans.setdefault(threading.get_ident(), [])
        if spans and spans[-1].first >= first:
            spans.clear()  # Another thread had this number before.
        spans.append(_Span(first, end, stream))
        del spans[:-MOST_SPANS]

    @contextmanager
    def around(self) -> Iterator[None]:
        """Surrounds a pass in the thread that calls it."""
        running, caller = backward_pass.current(), self._current_stream()
        if running is None:
            yield
            return
        self.are_several |= caller is not self._default
        self._last[running] = caller
        try:
            yield
        finally:
            caller.follow(self._last.pop(running))

    def current(self) -> SimStream:
        """Returns the stream of the node that runs now, or the default one outside of a pass."""
        running = backward_pass.current()
        last = self._last.get(running) if running is not None else None
        if running is None or last is None or running.thread == threading.get_ident():
            return self._default
        stream = self._stream_of_node(running, last)
        if stream is not last:
            stream.follow(last)
            self._last[running] = stream
        return stream

    def _stream_of_node(self, running: BackwardPass, last: SimStream) -> SimStream:
        """Nodes without a number, which add up gradients, stay on the last stream, and so do those
        of a forward that was itself run in a backward pass."""
        node = torch._C._current_autograd_node()
        number = NO_NUMBER if node is None else node._sequence_nr()
        if number >= NO_NUMBER or running.outer is not None:
            return last
        for span in reversed(self._spans.get(running.thread, ())):
            if number >= span.end:
                break
            if number >= span.first:
                return span.stream
        return self._default


NO_NUMBER = 1 << 63
