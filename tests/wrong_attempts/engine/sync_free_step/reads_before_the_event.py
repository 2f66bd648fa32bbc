"""Hands out the pinned tensor that the tokens go to, without asking whether they are there.

fails: test_chapter_02_steps_in_flight_do_not_disturb_each_other
may fail: test_chapter_02_reading_waits_for_its_own_step_alone
says: before the event behind their copy has passed
"""

from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]


class SampledTokens:
    def __init__(self, queued):
        self.values = queued.tokens.values

    def read(self):
        return self.values.tolist()


class Engine(solved.Engine):
    def step(self, requests):
        return SampledTokens(super().step(requests))
