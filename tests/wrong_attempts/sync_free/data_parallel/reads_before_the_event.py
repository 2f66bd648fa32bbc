"""Starts the copy, and hands out its target without waiting.

fails: test_what_is_not_there_yet_is_waited_for
may fail: test_it_does_not_wait_for_the_model
says: `read` has to make sure that the event
"""

import torch

from debubble.accelerator import current


class ReadBack:
    def __init__(self, state):
        self.values = state.to("cpu", non_blocking=True)

    def read(self):
        return self.values


def _run_ar(should_ubatch, orig_num_tokens, padded_num_tokens, cudagraph_mode, group):
    staged = torch.zeros(4, group.size, dtype=torch.int32, pin_memory=current().pin_memory)
    numbers = [orig_num_tokens, padded_num_tokens, int(should_ubatch), cudagraph_mode]
    staged[:, group.rank] = torch.tensor(numbers)
    with group.stream:
        state = staged.to(current().device, non_blocking=True)
        group.all_reduce(state)
        return ReadBack(state)
