"""Reads as many pages as the longest request of a step has, which a graph knows of its capture.

fails: test_the_tokens_are_those_of_the_plain_model
fails: test_altogether_the_host_never_waits
says: a width or a list that was decided at the capture
"""

from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import SampledTokens, attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]


class Engine(solved.Engine):
    def __init__(self, model, cache, host_cache):
        self.num_pages = 1
        super().__init__(model, cache, host_cache)

    def step(self, requests):
        self.num_pages = max(len(request.blocks) for request in requests)
        return super().step(requests)

    def _visible(self, inputs):
        return super()._visible(inputs)[:, : self.num_pages * solved.BLOCK]
