"""Pins the values of each upload anew.

fails: test_all_pinned_memory_is_made_at_the_start
says: Pinning asks the operating system
"""

import torch

from debubble.accelerator import current


class StagingRing:
    def __init__(self, shape, dtype, depth):
        self.pinned = current().pin_memory

    def upload(self, values, destination):
        staged = torch.empty_like(values, pin_memory=self.pinned).copy_(values)
        destination.copy_(staged, non_blocking=True)
