"""Reads all steps back into the same pinned buffer.

fails: test_steps_in_a_row_are_all_read_right
says: If they share one pinned buffer
"""

import torch

from debubble.accelerator import current

PINNED = torch.empty(4, 4, dtype=torch.int32, pin_memory=current().pin_memory)


class ReadBack(ReadBack):
    def __init__(self, tensor):
        self.values = PINNED.copy_(tensor, non_blocking=True)
        self.arrived = current().event()
        self.arrived.record()

    def read(self):
        return super().read().clone()
