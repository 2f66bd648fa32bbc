"""Counts the pieces of the list, and copies what becomes of them when they are merged.

fails: test_merged_pieces_are_counted
fails: test_nothing_to_copy_takes_no_path
says: Merge first, then count, then choose
"""

import numpy as np


def merge_adjacent(src, dst, sizes):
    holds_bytes = sizes != 0
    src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) == 0:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.flatnonzero(np.append(True, ~continues))
    return src[first], dst[first], np.add.reduceat(sizes, first)


def select_path(page_sizes, paths, time_us):
    def copy(src, dst, sizes):
        if len(sizes) == 0:
            return
        fits = not any((column % 8).any() for column in (src, dst, sizes))
        mean, count = float(sizes.mean()), len(sizes)
        among = paths if fits else ["dma"]
        path = min(among, key=lambda path: time_us(path, mean, count))
        paths[path](*merge_adjacent(src, dst, sizes))

    return copy
