"""Sums on the group's stream what it uploads on the model's, and nothing orders the two.

fails: test_it_does_not_wait_for_the_model
may fail: test_what_is_not_there_yet_is_waited_for
may fail: test_steps_in_a_row_are_all_read_right
says: belong inside `with group.stream:`
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
    staged = torch.zeros(4, group.size, dtype=torch.int32, pin_memory=current().pin_memory)
    numbers = [orig_num_tokens, padded_num_tokens, int(should_ubatch), cudagraph_mode]
    staged[:, group.rank] = torch.tensor(numbers)
    state = staged.to(current().device, non_blocking=True)
    with group.stream:
        group.all_reduce(state)
        return ReadBack(state)
