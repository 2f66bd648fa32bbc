"""Pinned memory for descriptors, used again and again, and never while a copy still reads it."""

from __future__ import annotations

from collections import deque

import torch

from debubble.accelerator import Event, current

SMALLEST = 64
"""Descriptors: 1.5 KiB."""


def _new_descriptor_buffers(capacity: int) -> torch.Tensor:
    """int64 [3, capacity], pinned where that is possible: batch_src, batch_dst, batch_sizes.

    The three numbers of a descriptor lie side by side: over the link they are one read.
    """
    return torch.empty((capacity, 3), dtype=torch.int64, pin_memory=current().pin_memory).t()


class DescriptorPool:
    """Grows as long as all its buffers are in use, up to `most_buffers` if that is given: then the
    host waits for the transfer that ends next."""

    def __init__(self, most_buffers: int | None = None) -> None:
        if most_buffers is not None and most_buffers < 1:
            raise ValueError(f"a pool of {most_buffers} buffers: it needs at least one")
        self.most_buffers = most_buffers
        self.num_buffers = 0
        self._free: list[torch.Tensor] = []
        self._in_flight: deque[tuple[torch.Tensor, Event]] = deque()

    def take(self, num_descriptors: int) -> torch.Tensor:
        """int64 [3, at least num_descriptors]; nobody else has it until it is given back.

        RuntimeError if there are `most_buffers`, and none of them has been given back.
        """
        self.reclaim()
        if self.num_buffers == self.most_buffers and not self._free:
            self._wait_for_the_oldest()
        fitting = [buffers for buffers in self._free if buffers.shape[1] >= num_descriptors]
        if not fitting:
            return self._grow(num_descriptors)
        smallest = min(fitting, key=lambda buffers: buffers.shape[1])
        self._free = [buffers for buffers in self._free if buffers is not smallest]
        return smallest

    def give_back(self, buffers: torch.Tensor, event: Event) -> None:
        """To be called once the copy is queued that reads `buffers`, with an `event` recorded
        behind it: they are handed out again when it has passed. Events pass in the order of these
        calls."""
        self._in_flight.append((buffers, event))

    def reclaim(self) -> None:
        """Takes back what no copy reads any more, without a wait, and forgets its event."""
        while self._in_flight and self._in_flight[0][1].query():
            self._free.append(self._in_flight.popleft()[0])

    def _wait_for_the_oldest(self) -> None:
        if not self._in_flight:
            raise RuntimeError(
                f"all {self.num_buffers} descriptor buffers are taken: give one back first"
            )
        self._in_flight[0][1].synchronize()
        self.reclaim()

    def _grow(self, num_descriptors: int) -> torch.Tensor:
        """A larger buffer, in the place of a free one if there may be no more of them."""
        if self.num_buffers == self.most_buffers:
            self._free.pop()
            self.num_buffers -= 1
        # A buffer is of use to the next transfer as well, which has a few descriptors more.
        buffers = _new_descriptor_buffers(max(SMALLEST, 1 << (num_descriptors - 1).bit_length()))
        self.num_buffers += 1
        return buffers
