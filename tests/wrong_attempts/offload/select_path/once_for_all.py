"""Asks what was measured, but only once: for many pages.

fails: test_the_number_of_pieces_decides
fails: test_the_bytes_that_are_copied_decide
fails: test_merged_pieces_are_counted
fails: test_each_list_is_chosen_for
fails: test_another_gpu_has_other_times
says: choose in each call
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
    fastest = min(paths, key=lambda path: time_us(path, max(page_sizes), 1024))

    def copy(src, dst, sizes):
        src, dst, sizes = merge_adjacent(src, dst, sizes)
        if len(sizes) == 0:
            return
        fits = not any((column % 8).any() for column in (src, dst, sizes))
        paths[fastest if fits else "dma"](src, dst, sizes)

    return copy
