"""Compares each piece with each other piece.

fails: test_memory_grows_with_the_pieces
says: Expected about 16 times the memory for 16 times the pieces. Your code takes
"""


def merge_adjacent(src, dst, sizes):
    holds_bytes = sizes != 0
    src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) < 2:
        return src, dst, sizes
    follows = (src[:, None] == src + sizes) & (dst[:, None] == dst + sizes)
    continues = follows.diagonal(-1)
    first = np.concatenate(([0], np.flatnonzero(~continues) + 1))
    return src[first], dst[first], np.add.reduceat(sizes, first)
