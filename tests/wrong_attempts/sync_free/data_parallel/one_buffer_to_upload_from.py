"""Pins one buffer, and writes every step's column into it.

fails: test_steps_in_a_row_are_all_read_right
says: If they share one pinned buffer
"""

import torch

from debubble.accelerator import current

buffers = {}


class ReadBack:
    def __init__(self, state):
        self.values = state.to("cpu", non_blocking=True)
        self.arrived = current().event()
        self.arrived.record()

    def read(self):
        if not self.arrived.query():
            self.arrived.synchronize()
        return self.values


def _run_ar(should_ubatch, orig_num_tokens, padded_num_tokens, cudagraph_mode, group):
    if "staged" not in buffers:
        pinned = current().pin_memory
        buffers["staged"] = torch.zeros(4, group.size, dtype=torch.int32, pin_memory=pinned)
    staged = buffers["staged"]
    numbers = [orig_num_tokens, padded_num_tokens, int(should_ubatch), cudagraph_mode]
    staged[:, group.rank] = torch.tensor(numbers)
    with group.stream:
        state = staged.to(current().device, non_blocking=True)
        group.all_reduce(state)
        return ReadBack(state)
