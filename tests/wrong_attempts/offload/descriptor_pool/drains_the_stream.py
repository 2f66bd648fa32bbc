"""Waits for the whole stream when the pool is full.

fails: test_a_full_pool_waits_for_the_oldest_transfer_alone
says: waited until the device had done everything
says: .synchronize()
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
            current().current_stream().synchronize()
            self.reclaim()
        for index, buffers in enumerate(self.free):
            if buffers.shape[1] >= num_descriptors:
                return self.free.pop(index)
        if self.num_buffers == self.most_buffers:
            self.free.pop()
            self.num_buffers -= 1
        self.num_buffers += 1
        return torch.empty((3, num_descriptors), dtype=torch.int64, pin_memory=current().pin_memory)

    def give_back(self, buffers, event):
        self.in_flight.append((buffers, event))

    def reclaim(self):
        while self.in_flight and self.in_flight[0][1].query():
            self.free.append(self.in_flight.popleft()[0])
