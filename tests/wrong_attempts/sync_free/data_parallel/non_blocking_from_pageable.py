"""One upload, "without blocking", from memory that is not pinned.

fails: test_nobody_waits_while_the_step_is_prepared
says: 1 pageable upload
says: a whole tensor that is not pinned
"""

import torch

from debubble.accelerator import current


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
    column = torch.zeros(4, group.size, dtype=torch.int32)
    numbers = [orig_num_tokens, padded_num_tokens, int(should_ubatch), cudagraph_mode]
    column[:, group.rank] = torch.tensor(numbers)
    with group.stream:
        state = column.to(current().device, non_blocking=True)
        group.all_reduce(state)
        return ReadBack(state)
