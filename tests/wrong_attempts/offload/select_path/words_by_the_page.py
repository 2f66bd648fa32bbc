"""Looks at the pages alone to see whether a kernel can copy their parts.

fails: test_what_no_kernel_can_copy_is_left_to_dma
says: The kernel moves words of 8 bytes
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
    among = ["dma"] if any(page % 8 for page in page_sizes) else paths

    def copy(src, dst, sizes):
        src, dst, sizes = merge_adjacent(src, dst, sizes)
        if len(sizes) == 0:
            return
        path = min(among, key=lambda path: time_us(path, float(sizes.mean()), len(sizes)))
        paths[path](src, dst, sizes)

    return copy
