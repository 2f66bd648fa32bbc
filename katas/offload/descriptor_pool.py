"""Descriptors in flight (chapter 05, medium, 30 minutes).

A kernel that copies a list of pieces reads it, the descriptors, from pinned host memory: addresses
of sources, addresses of targets, sizes. It does so when its turn comes, long after the host has
queued it. If the host writes the next transfer's descriptors there before, two transfers copy the
same blocks, and one request reads what is not its own. The class below is safe from that, because
`take` waits until all transfers are done. Meanwhile the host queues nothing.

Hand out a buffer again as soon as the event has passed that it was given back with, and not before.
If none is free, make another, and wait for nobody. Only a pool that has `most_buffers` waits: for
the transfer that ends first, and for nothing else.

You need to know pinned memory and events.

Edit this file, then run

    pytest katas/offload/test_descriptor_pool.py

Stuck?         debubble hint descriptor_pool
Start afresh?  debubble reset descriptor_pool
"""

from __future__ import annotations

from collections import deque

import torch

from debubble.accelerator import Event, current


# Yours to edit, from here on.
class DescriptorPool:
    """Pinned buffers for descriptors, each used again when the copy that reads it is done.

    The pool grows as long as all its buffers are in use, up to `most_buffers` if that is given:
    then the host waits for the transfer that ends next.
    """

    def __init__(self, most_buffers: int | None = None) -> None:
        self.most_buffers = most_buffers
        self._free: list[torch.Tensor] = []
        self._in_flight: deque[tuple[torch.Tensor, Event]] = deque()

    def take(self, num_descriptors: int) -> torch.Tensor:
        """A buffer, int64 [3, at least num_descriptors], that nobody else has until it is given
        back.

        RuntimeError if there are `most_buffers`, and none of them has been given back.
        """
        self.reclaim()
        for index, buffers in enumerate(self._free):
            if buffers.shape[1] >= num_descriptors:
                return self._free.pop(index)
        return _new_descriptor_buffers(num_descriptors)

    def give_back(self, buffers: torch.Tensor, event: Event) -> None:
        """Lets `buffers` be handed out again when `event` has passed, which the caller has recorded
        behind the copy that reads them. Events pass in the order of these calls."""
        self._in_flight.append((buffers, event))

    def reclaim(self) -> None:
        """Takes back the buffers that no copy reads any more, without a wait, and forgets their
        events."""
        while self._in_flight:
            buffers, event = self._in_flight.popleft()
            event.synchronize()
            self._free.append(buffers)


# region Given: what the code above uses. You may change it, and need not.


def _new_descriptor_buffers(capacity: int) -> torch.Tensor:
    """An int64 tensor [3, capacity], pinned where that is possible, for addresses of sources,
    addresses of targets and sizes.

    The three numbers of a descriptor lie side by side: over the link they are one read.
    """
    return torch.empty((capacity, 3), dtype=torch.int64, pin_memory=current().pin_memory).t()


# endregion
