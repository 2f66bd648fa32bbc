"""Takes all back when the newest transfer is done, and none before.

fails: test_a_buffer_is_free_when_its_own_transfer_is_done
says: Who only asks for the newest event never finds anything free
"""

import torch

from debubble.accelerator import current


class DescriptorPool:
    def __init__(self, most_buffers=None):
        self.most_buffers, self.num_buffers = most_buffers, 0
        self.free, self.in_flight = [], []

    def take(self, num_descriptors):
        self.reclaim()
        if not self.free and self.num_buffers == self.most_buffers:
            if not self.in_flight:
                raise RuntimeError(f"all {self.num_buffers} buffers are taken")
            buffers, event = self.in_flight.pop(0)
            event.synchronize()
            self.free.append(buffers)
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
        if self.in_flight and self.in_flight[-1][1].query():
            self.free += [buffers for buffers, _ in self.in_flight]
            self.in_flight.clear()
