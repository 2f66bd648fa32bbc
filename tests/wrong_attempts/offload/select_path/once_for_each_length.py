"""Remembers the fastest path for a number of pieces, whatever their size.

fails: test_lists_of_one_length_may_take_other_paths
says: choose in each call
"""


def select_path(page_sizes, paths, time_us):
    fastest = {}

    def copy(src, dst, sizes):
        columns = src, dst, sizes = merge_adjacent(src, dst, sizes)
        count = len(sizes)
        if count == 0:
            return
        if any((column % WORD).any() for column in columns):
            paths["dma"](*columns)
            return
        if count not in fastest:
            mean = float(sizes.mean())
            fastest[count] = min(paths, key=lambda path: time_us(path, mean, count))
        paths[fastest[count]](*columns)

    return copy
