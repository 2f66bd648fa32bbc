"""Reads all steps back into the same pinned buffer.

fails: test_steps_in_a_row_are_all_read_right
says: If they share one pinned buffer
"""

import torch

from debubble.accelerator import current

buffers = {}


class ReadBack:
    def __init__(self, state):
        if "values" not in buffers:
            pinned = current().pin_memory
            buffers["values"] = torch.empty(state.shape, dtype=state.dtype, pin_memory=pinned)
        buffers["values"].copy_(state, non_blocking=True)
        self.arrived = current().event()
        self.arrived.record()

    def read(self):
        if not self.arrived.query():
            self.arrived.synchronize()
        return buffers["values"].clone()


def _run_ar(should_ubatch, orig_num_tokens, padded_num_tokens, cudagraph_mode, group):
    with group.stream:
        state = torch.zeros(4, group.size, dtype=torch.int32, device=current().device)
        own = state[:, group.rank : group.rank + 1]
        own[0].fill_(orig_num_tokens)
        own[1].fill_(padded_num_tokens)
        own[2].fill_(should_ubatch)
        own[3].fill_(cudagraph_mode)
        group.all_reduce(state)
        return ReadBack(state)
