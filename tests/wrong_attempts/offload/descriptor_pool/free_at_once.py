"""Hands out again whatever was given back, while a queued transfer still has to read it.

fails: test_each_transfer_reads_its_own_descriptors
fails: test_a_buffer_in_flight_is_not_handed_out
fails: test_a_full_pool_waits_for_the_oldest_transfer_alone
says: A buffer that was given back may still have to be read
"""

import torch

from debubble.accelerator import current


class DescriptorPool:
    def __init__(self, most_buffers=None):
        self.most_buffers, self.num_buffers = most_buffers, 0
        self.free = []

    def take(self, num_descriptors):
        for index, buffers in enumerate(self.free):
            if buffers.shape[1] >= num_descriptors:
                return self.free.pop(index)
        if self.num_buffers == self.most_buffers:
            if not self.free:
                raise RuntimeError(f"all {self.num_buffers} buffers are taken")
            self.free.pop()
            self.num_buffers -= 1
        self.num_buffers += 1
        return torch.empty((3, num_descriptors), dtype=torch.int64, pin_memory=current().pin_memory)

    def give_back(self, buffers, event):
        self.free.append(buffers)

    def reclaim(self):
        pass
