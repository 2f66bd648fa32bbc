"""Compares differences of addresses in int32, which are equal modulo 4 GiB.

fails: test_steps_one_after_another
says: Expected item 0 of what merge_adjacent of pieces 4 GiB apart returns to be [0,
"""


def merge_adjacent(src, dst, sizes):
    holds_bytes = sizes != 0
    src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) < 2:
        return src, dst, sizes
    gap = lambda column: (np.diff(column) - sizes[:-1]).astype(np.int32)
    continues = (gap(src) == 0) & (gap(dst) == 0)
    first = np.concatenate(([0], np.flatnonzero(~continues) + 1))
    return src[first], dst[first], np.add.reduceat(sizes, first)
