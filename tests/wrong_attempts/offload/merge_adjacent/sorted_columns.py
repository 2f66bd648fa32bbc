"""Sorts sources and targets, to find more neighbours, and so sends blocks to others' places.

fails: test_a_run_is_one_piece
fails: test_others_stay_as_they_are
fails: test_the_same_bytes_arrive
fails: test_the_device_makes_one_copy_of_a_run
says: An array that is sorted by itself no longer fits the other two
"""

import numpy as np


def merge_adjacent(src, dst, sizes):
    holds_bytes = sizes != 0
    src, dst, sizes = np.sort(src[holds_bytes]), np.sort(dst[holds_bytes]), sizes[holds_bytes]
    if len(sizes) == 0:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.flatnonzero(np.append(True, ~continues))
    return src[first], dst[first], np.add.reduceat(sizes, first)
