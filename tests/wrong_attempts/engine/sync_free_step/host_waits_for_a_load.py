"""Lets the host wait for a load, where the stream of the step should.

fails: test_chapter_05_a_step_waits_for_the_blocks_that_it_reads
fails: test_altogether_the_host_never_waits
says: lets the host wait for them
"""

from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import SampledTokens, attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]


class Engine(solved.Engine):
    def step(self, requests):
        for request in requests:
            if request.slot in self.loads:
                self.loads.pop(request.slot).synchronize()
        return super().step(requests)
