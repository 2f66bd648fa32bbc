"""Sends a decode step's inputs to new tensors, and replays the graph that reads others.

fails: test_the_tokens_are_those_of_the_plain_model
fails: test_altogether_the_host_never_waits
says: reads the addresses that it was captured with
"""

from debubble.accelerator import current
from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import SampledTokens, attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]


class Engine(solved.Engine):
    def step(self, requests):
        for request in requests:
            if request.slot in self.loads:
                current().current_stream().wait_event(self.loads.pop(request.slot))
        is_decode = not any(request.prompt for request in requests)
        rows = solved.padded(requests, solved.MOST_REQUESTS, solved.PADDING)
        numbers, shapes = solved.packed_inputs(rows if is_decode else requests)
        self.inputs = solved.unpacked(numbers.to(self.cache.device, non_blocking=True), shapes)
        if is_decode:
            self.decode.replay()
            sampled = self.decode_sampled
        else:
            sampled = self._forward(self.inputs)
        return SampledTokens(sampled[: len(requests)])
