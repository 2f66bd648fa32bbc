"""Merges runs, and hands on the pieces of no bytes that lie elsewhere.

fails: test_pieces_of_no_bytes_are_left_out
says: the driver refuses the whole batch that has one
"""

import numpy as np


def merge_adjacent(src, dst, sizes):
    if len(sizes) < 2:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.flatnonzero(np.append(True, ~continues))
    return src[first], dst[first], np.add.reduceat(sizes, first)
