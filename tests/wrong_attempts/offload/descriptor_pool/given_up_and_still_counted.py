"""Drops free buffers that are too small, and counts them on.

fails: test_buffers_that_are_given_up_count_no_longer
says: Expected 2 calls of take(200), of a pool that may have 2 buffers, to return.
"""


class DescriptorPool(DescriptorPool):
    def _grow(self, num_descriptors):
        if self.num_buffers == self.most_buffers:
            self._free.clear()
            self.num_buffers -= 1
        buffers = _new_descriptor_buffers(num_descriptors)
        self.num_buffers += 1
        return buffers
