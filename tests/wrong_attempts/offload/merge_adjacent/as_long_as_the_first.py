"""Counts the pieces of a run and multiplies, as if all of them were as long as its first.

fails: test_a_run_is_one_piece
fails: test_the_same_bytes_arrive
says: as many bytes as all pieces of its run together
"""

import numpy as np


def merge_adjacent(src, dst, sizes):
    holds_bytes = sizes != 0
    src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) == 0:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.flatnonzero(np.append(True, ~continues))
    pieces_of_a_run = np.diff(np.append(first, len(sizes)))
    return src[first], dst[first], sizes[first] * pieces_of_a_run
