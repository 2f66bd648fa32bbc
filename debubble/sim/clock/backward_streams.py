"""Computes each gradient on the stream of its forward operator, as PyTorch's autograd does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from debubble.contract import backward_pass
from debubble.contract.backward_pass import BackwardPass
from debubble.private.torch import current_autograd_node, sequence_nr

from .streams import SimStream

MOST_SPANS = 1024
"""The most spans that are stored for each thread; older ones are dropped."""


class _Span(NamedTuple):
    """Autograd nodes `first` to `end - 1` of a thread, made while it queued work on `stream`."""

    first: int
    end: int
    stream: SimStream


class BackwardStreams:
    """Finds the stream on which each autograd node of a backward pass runs.

    PyTorch makes one stream of a pass wait for another if it uses that stream's gradient, and makes
    the caller's stream wait for all of them. Here each stream that a pass switches to waits for the
    stream before it, so the last stream has waited for all of them.
    """

    def __init__(self, current_stream: Callable[[], SimStream], default: SimStream) -> None:
        self._current_stream, self._default = current_stream, default
        self._spans: dict[int, list[_Span]] = {}
        """Nodes made on other streams than the default one, oldest first, by the identifier of the
        thread that made them."""
        self._last: dict[BackwardPass, SimStream] = {}
        """The stream on which each pass in progress last queued work."""
        self.are_several = False
        """True once a node was made, or a pass started, on a stream other than the default one."""

    def made_nodes(self, stream: SimStream | None, first: int) -> None:
        """Notes that the autograd nodes that this thread made since number `first` belong to
        `stream`."""
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
        """A context manager for the thread that calls a backward pass: the pass begins on the
        thread's current stream, which at the end waits for the last stream of the pass."""
        running, caller = backward_pass.running_pass(), self._current_stream()
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
        """Returns the stream on which the autograd node that runs now was made, once that stream
        waits for the pass's last one. Returns the default stream outside of a pass."""
        running = backward_pass.running_pass()
        last = self._last.get(running) if running is not None else None
        if running is None or last is None or running.thread == threading.get_ident():
            return self._default
        stream = self._stream_of_node(running, last)
        if stream is not last:
            stream.follow(last)
            self._last[running] = stream
        return stream

    def _stream_of_node(self, running: BackwardPass, last: SimStream) -> SimStream:
        """Returns the stream on which the running node was made.

        Returns `last` for a node without a number, which adds up gradients, and for a node of a
        forward that ran inside a backward pass."""
        node = current_autograd_node()
        number = NO_NUMBER if node is None else sequence_nr(node)()
        if number >= NO_NUMBER or running.outer is not None:
            return last
        for span in reversed(self._spans.get(running.thread, ())):
            if number >= span.end:
                break
            if number >= span.first:
                return span.stream
        return self._default


NO_NUMBER = 1 << 63
