"""Asks whether the sources continue one another, and takes the targets as they come.

fails: test_others_stay_as_they_are
fails: test_the_same_bytes_arrive
fails: test_the_device_makes_one_copy_of_a_run
says: Two pieces are one copy only if both sides go on
"""

import numpy as np


def merge_adjacent(src, dst, sizes):
    holds_bytes = sizes != 0
    src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) == 0:
        return src, dst, sizes
    starts = np.ones(len(sizes), dtype=bool)
    starts[1:] = src[1:] != src[:-1] + sizes[:-1]
    first = np.flatnonzero(starts)
    return src[first], dst[first], np.add.reduceat(sizes, first)
