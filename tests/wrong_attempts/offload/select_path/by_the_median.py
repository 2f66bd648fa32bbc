"""Asks for the time of a piece of the median size.

fails: test_steps_one_after_another
says: of a copy of 60 pieces of 8 bytes and one of 4 MiB
"""


def select_path(page_sizes, paths, time_us):
    def copy(src, dst, sizes):
        columns = src, dst, sizes = merge_adjacent(src, dst, sizes)
        count = len(sizes)
        if count == 0:
            return
        fits_kernel = not any((column % WORD).any() for column in columns)
        median = float(np.median(sizes))
        among = paths if fits_kernel else ["dma"]
        paths[min(among, key=lambda path: time_us(path, median, count))](*columns)

    return copy
