"""Waits for the last copy of its one staging buffer, if that is not done: on a busy device the
second step waits before it queues anything.

fails: test_it_waits_once_a_step_at_most
says: with two staging buffers, used in turn
"""


class StagingRing(StagingRing):
    def __init__(self, shape, dtype, depth):
        super().__init__(shape, dtype, depth=1)
