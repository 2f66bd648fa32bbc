"""A ring of staging buffers (chapter 01, medium, 25 minutes).

Pinning memory is slow, so an engine pins a few buffers once, as many as it has steps in flight, and
uses them in turn. The class below pins nothing, so each of its uploads waits for the device.

Let `__init__` pin `depth` buffers. Let `upload` take the next buffer, write the values to it, and
queue the copy from there. A queued copy has not read its buffer yet: before you write to a buffer
again, make sure that its last copy is done, and wait for nothing else. Call `event.query()` first,
because a copy that is done needs no wait. Wait for an unfinished copy with `event.synchronize()`,
not with a loop of queries. Pin the memory if the platform can: `pin_memory=current().pin_memory`,
from `debubble.accelerator`.

You need to know pinned memory and events: `event = current().event()` makes one, `event.record()`
marks a place in the stream, `event.query()` asks if it is passed, `event.synchronize()` waits.

Edit this file, then run

    .venv/bin/pytest katas/pinned_h2d/test_staging_ring.py

Stuck?         .venv/bin/debubble hint staging_ring
Start afresh?  .venv/bin/debubble reset staging_ring
"""

from __future__ import annotations

import torch


# Yours to edit, from here on.
class StagingRing:
    """A ring of `depth` pinned buffers of one shape. If there is a buffer for each step in flight,
    no upload waits."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, depth: int) -> None:
        self.shape, self.dtype, self.depth = shape, dtype, depth

    def upload(self, values: torch.Tensor, destination: torch.Tensor) -> None:
        """Copies host `values` to `destination` on the current stream. Both have the ring's shape,
        or fewer rows. The caller may change or drop `values` at once."""
        destination.copy_(values)
