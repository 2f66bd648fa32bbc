"""Makes every buffer free by waiting for its copy at once.

fails: test_nobody_waits_while_there_are_free_buffers
fails: test_a_buffer_whose_copy_is_done_is_free
fails: test_it_waits_for_one_copy_and_for_nothing_behind_it
says: While there is a free buffer, there is nothing to wait for
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
        destination.copy_(slot)
