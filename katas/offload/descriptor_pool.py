"""Descriptors in flight (chapter 05, medium, 30 minutes).

A kernel that copies a list of pieces reads the list, its descriptors, from pinned host memory:
source addresses, target addresses, sizes. It reads them when it runs, long after the host has
queued it. If the host overwrites them earlier with the next transfer's descriptors, two transfers
copy the same blocks, and one request reads another request's data. The class below is safe from
that, because `take` waits until all transfers are done. Meanwhile the host queues nothing.

Hand out a buffer again as soon as the event that it was returned with has passed, and not earlier.
If no free buffer is large enough, make another without waiting. Only a pool that has `most_buffers`
can't: it drops a free buffer that is too small and makes a larger one in its place. If it has no
free buffer, it waits for the transfer that ends first, and for nothing else.

You need to know pinned memory and events.

Edit this file, then run

    .venv/bin/pytest katas/offload/test_descriptor_pool.py

Stuck?         .venv/bin/debubble hint descriptor_pool
Start afresh?  .venv/bin/debubble reset descriptor_pool
"""

from __future__ import annotations

from collections import deque

import torch

from debubble.accelerator import Event
from katas.offload.given import _new_descriptor_buffers


# Yours to edit, from here on.
class DescriptorPool:
    """A pool of pinned buffers for descriptors. A buffer is reused once the copy that reads it is
    done.

    The pool grows whenever all its buffers are in use, up to `most_buffers` if that is given. Then
    the host waits for the transfer that ends next.
    """

    def __init__(self, most_buffers: int | None = None) -> None:
        self.most_buffers = most_buffers
        self._free: list[torch.Tensor] = []
        self._in_flight: deque[tuple[torch.Tensor, Event]] = deque()

    def take(self, num_descriptors: int) -> torch.Tensor:
        """Returns a free buffer, int64 [3, at least num_descriptors], which is the caller's until
        `give_back`.

        Raises RuntimeError if there are `most_buffers` buffers, and none of them has been returned.
        One that has been returned and is too small makes room for a larger one.
        """
        self.reclaim()
        for index, buffers in enumerate(self._free):
            if buffers.shape[1] >= num_descriptors:
                return self._free.pop(index)
        return _new_descriptor_buffers(num_descriptors)

    def give_back(self, buffers: torch.Tensor, event: Event) -> None:
        """Lets `take` return `buffers` again once `event` is done. The caller has recorded `event`
        after the copy that reads them. Events complete in the order of these calls."""
        self._in_flight.append((buffers, event))

    def reclaim(self) -> None:
        """Frees the buffers that no copy reads any more, without a wait, and drops their events."""
        while self._in_flight:
            buffers, event = self._in_flight.popleft()
            event.synchronize()
            self._free.append(buffers)
