"""Waits in each step for the last copy of its one staging buffer and for the tokens, done or not.

fails: test_it_waits_once_a_step_at_most
says: 11 host syncs
says: with two staging buffers, used in turn
"""


class StagingRing(StagingRing):
    def __init__(self, shape, dtype, depth):
        super().__init__(shape, dtype, depth=1)

    def upload(self, values, destination):
        self.copied[0].synchronize()
        super().upload(values, destination)


class ReadBack(ReadBack):
    def read(self):
        self.arrived.synchronize()
        return self.values
