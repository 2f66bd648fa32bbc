"""Asks about as many pieces as there are, but of the size of a page.

fails: test_the_bytes_that_are_copied_decide
says: A page is how the cache is laid out
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
    page = max(page_sizes)

    def copy(src, dst, sizes):
        src, dst, sizes = merge_adjacent(src, dst, sizes)
        if len(sizes) == 0:
            return
        fits = not any((column % 8).any() for column in (src, dst, sizes))
        among = paths if fits else ["dma"]
        path = min(among, key=lambda path: time_us(path, page, len(sizes)))
        paths[path](src, dst, sizes)

    return copy
