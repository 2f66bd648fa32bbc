"""Packs the inputs of each step into the same pinned tensor, which the last copy may still read.

fails: test_chapter_02_steps_in_flight_do_not_disturb_each_other
may fail: test_altogether_the_host_never_waits
says: may go out in place of this one's
"""

import torch

from debubble.accelerator import current
from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import SampledTokens, attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]


class Engine(solved.Engine):
    def __init__(self, model, cache, host_cache):
        self.staging = torch.empty(512, dtype=torch.int64, pin_memory=current().pin_memory)
        super().__init__(model, cache, host_cache)

    def step(self, requests):
        for request in requests:
            if request.slot in self.loads:
                current().current_stream().wait_event(self.loads.pop(request.slot))
        is_decode = not any(request.prompt for request in requests)
        rows = solved.padded(requests, solved.MOST_REQUESTS, solved.PADDING)
        numbers, shapes = solved.packed_inputs(rows if is_decode else requests)
        staged = self.staging[: len(numbers)].copy_(numbers)
        if is_decode:
            self.decode_numbers.copy_(staged, non_blocking=True)
            self.decode.replay()
            sampled = self.decode_sampled
        else:
            numbers = staged.to(self.cache.device, non_blocking=True)
            sampled = self._forward(solved.unpacked(numbers, shapes))
        return SampledTokens(sampled[: len(requests)])
