"""Fills a graph up with rows that write their token to slot 0, which is a request's.

fails: test_the_tokens_are_those_of_the_plain_model
may fail: test_altogether_the_host_never_waits
says: give them a slot and a block that are nobody's
"""

from unittest import mock

from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import PADDING, SampledTokens, attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]


class Engine(solved.Engine):
    def step(self, requests):
        with mock.patch.object(solved, "PADDING", PADDING._replace(slot=0)):
            return super().step(requests)
