"""Asks about a single piece, as if the others cost nothing more.

fails: test_the_number_of_pieces_decides
fails: test_the_bytes_that_are_copied_decide
fails: test_each_list_is_chosen_for
fails: test_the_mean_size_decides
fails: test_another_gpu_has_other_times
says: 4 pieces and 64 pieces of the same size go different ways
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
        src, dst, sizes = merge_adjacent(src, dst, sizes)
        if len(sizes) == 0:
            return
        fits = not any((column % 8).any() for column in (src, dst, sizes))
        among = paths if fits else ["dma"]
        path = min(among, key=lambda path: time_us(path, float(sizes.mean()), 1))
        paths[path](src, dst, sizes)

    return copy
