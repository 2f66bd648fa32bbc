"""Removes the paths that can't copy the list, and sorts the rest by time."""


def select_path(page_sizes, paths, time_us):
    def copy(*columns):
        merged = merge_adjacent(*columns)
        sizes = merged[2]
        if sizes.size == 0:
            return
        able = dict(paths)
        if np.concatenate(merged).astype(np.int64).__mod__(8).any():
            able.pop("kernel", None)
        mean = int(sizes.sum()) / sizes.size
        ranked = sorted(able, key=lambda name: time_us(name, mean, sizes.size))
        able[ranked[0]](*merged)

    return copy
