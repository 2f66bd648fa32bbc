"""Finds where runs end, and takes differences of all bytes up to there."""


def merge_adjacent(src, dst, sizes):
    keep = np.flatnonzero(sizes)
    src, dst, sizes = src[keep], dst[keep], sizes[keep]
    if not len(keep):
        return src, dst, sizes
    breaks = np.append((src + sizes)[:-1] != src[1:], True)
    breaks[:-1] |= (dst + sizes)[:-1] != dst[1:]
    last = np.flatnonzero(breaks)
    total = np.diff(sizes.cumsum()[last], prepend=0)
    first = np.append(0, last[:-1] + 1)
    return src.take(first), dst.take(first), total
