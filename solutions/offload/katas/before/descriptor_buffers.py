"""Descriptors that the next transfer can't overwrite, since the host waits before it writes
them."""

from __future__ import annotations

from collections import deque

import torch

from debubble.accelerator import Event

from ...paths.descriptors import _new_descriptor_buffers


class DescriptorPool:
    """A pool of descriptor buffers in which `take` makes the host wait for all transfers in
    flight."""

    def __init__(self, most_buffers: int | None = None) -> None:
        self.most_buffers = most_buffers
        self._free: list[torch.Tensor] = []
        self._in_flight: deque[tuple[torch.Tensor, Event]] = deque()

    def take(self, num_descriptors: int) -> torch.Tensor:
        """Returns a free buffer with room for `num_descriptors` descriptors, once no transfer is in
        flight."""
        self.reclaim()
        for index, buffers in enumerate(self._free):
            if buffers.shape[1] >= num_descriptors:
                return self._free.pop(index)
        return _new_descriptor_buffers(num_descriptors)

    def give_back(self, buffers: torch.Tensor, event: Event) -> None:
        """Returns `buffers` to the pool, which waits for `event` before it uses them again."""
        self._in_flight.append((buffers, event))

    def reclaim(self) -> None:
        """Makes the host wait until no buffer is in flight, and frees all of them."""
        while self._in_flight:
            buffers, event = self._in_flight.popleft()
            event.synchronize()
            self._free.append(buffers)
