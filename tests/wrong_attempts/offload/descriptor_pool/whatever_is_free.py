"""Hands out the first free buffer, whatever it has room for.

fails: test_a_larger_transfer_has_a_larger_buffer
fails: test_a_full_pool_makes_room_for_a_larger_transfer
says: Look for a free buffer with at least so many columns
"""

from collections import deque

import torch

from debubble.accelerator import current


class DescriptorPool:
    def __init__(self, most_buffers=None):
        self.most_buffers, self.num_buffers = most_buffers, 0
        self.free, self.in_flight = [], deque()

    def take(self, num_descriptors):
        self.reclaim()
        if not self.free and self.num_buffers == self.most_buffers:
            if not self.in_flight:
                raise RuntimeError(f"all {self.num_buffers} buffers are taken")
            self.in_flight[0][1].synchronize()
            self.reclaim()
        if self.free:
            return self.free.pop()
        self.num_buffers += 1
        return torch.empty(
            (3, max(num_descriptors, 64)), dtype=torch.int64, pin_memory=current().pin_memory
        )

    def give_back(self, buffers, event):
        self.in_flight.append((buffers, event))

    def reclaim(self):
        while self.in_flight and self.in_flight[0][1].query():
            self.free.append(self.in_flight.popleft()[0])
