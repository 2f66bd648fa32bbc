"""Pinned memory for uploads that is reused, but never while a copy still reads it."""

from __future__ import annotations

import torch

from debubble.accelerator import current

STEPS_IN_FLIGHT = 2
"""The number of steps whose uploads may be pending at once, the running one and the next one: a
StagingRing has a slot for each."""


class StagingRing:
    """A ring of `depth` pinned buffers of one shape. If there is a buffer for each step in flight,
    no upload waits."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"a staging ring of depth {depth}: it needs at least one slot")
        pin_memory = current().pin_memory
        self.slots = [torch.zeros(shape, dtype=dtype, pin_memory=pin_memory) for _ in range(depth)]
        self.copied = [current().event() for _ in range(depth)]
        self.next_slot = 0

    def upload(self, values: torch.Tensor, destination: torch.Tensor) -> None:
        """Copies host `values` to `destination` on the current stream. Both have the ring's shape,
        or fewer rows. The caller may change or drop `values` at once."""
        slot, copied = self.slots[self.next_slot][: len(values)], self.copied[self.next_slot]
        # The slot's last copy may still be queued, after all the work of its step.
        if not copied.query():
            copied.synchronize()
        slot.copy_(values)
        destination.copy_(slot, non_blocking=True)
        copied.record()
        self.next_slot = (self.next_slot + 1) % len(self.slots)
