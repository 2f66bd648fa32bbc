"""Copies from the caller's memory if that is pinned already.

fails: test_the_caller_may_change_its_objects
says: The caller changes its lists, dicts and arrays
"""


class StagingRing(StagingRing):
    def upload(self, values, destination):
        if values.is_pinned():
            destination.copy_(values, non_blocking=True)
        else:
            super().upload(values, destination)
