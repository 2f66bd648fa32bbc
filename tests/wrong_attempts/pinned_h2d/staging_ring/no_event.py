"""Takes the buffers in turn, and never looks whether a copy still reads them.

fails: test_all_values_arrive
says: A queued copy reads its buffer when its turn comes
"""

import torch

from debubble.accelerator import current


class StagingRing:
    def __init__(self, shape, dtype, depth):
        pinned = current().pin_memory
        self.slots = [torch.zeros(shape, dtype=dtype, pin_memory=pinned) for _ in range(depth)]
        self.next = 0

    def upload(self, values, destination):
        slot = self.slots[self.next]
        self.next = (self.next + 1) % len(self.slots)
        slot.copy_(values)
        destination.copy_(slot, non_blocking=True)
