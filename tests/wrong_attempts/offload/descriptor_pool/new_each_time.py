"""Pins a buffer for each transfer, and lets it go when that is done.

fails: test_buffers_are_used_again
fails: test_a_buffer_is_free_when_its_own_transfer_is_done
fails: test_a_larger_transfer_has_a_larger_buffer
fails: test_a_full_pool_waits_for_the_oldest_transfer_alone
says: A buffer whose transfer is done is as good as a new one
"""

from collections import deque

import torch

from debubble.accelerator import current


class DescriptorPool:
    def __init__(self, most_buffers=None):
        self.most_buffers = most_buffers
        self.taken, self.in_flight = 0, deque()

    def take(self, num_descriptors):
        self.reclaim()
        if self.taken == self.most_buffers:
            if not self.in_flight:
                raise RuntimeError(f"all {self.taken} buffers are taken")
            self.in_flight[0][1].synchronize()
            self.reclaim()
        self.taken += 1
        return torch.empty((3, num_descriptors), dtype=torch.int64, pin_memory=current().pin_memory)

    def give_back(self, buffers, event):
        self.in_flight.append((buffers, event))

    def reclaim(self):
        while self.in_flight and self.in_flight[0][1].query():
            self.in_flight.popleft()
            self.taken -= 1
