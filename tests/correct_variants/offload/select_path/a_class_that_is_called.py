"""Returns a callable object that compares two times."""


class select_path:
    def __init__(self, page_sizes, paths, time_us):
        self.paths, self.time_us = paths, time_us

    def __call__(self, src, dst, sizes):
        src, dst, sizes = merge_adjacent(src, dst, sizes)
        if not len(sizes):
            return
        mean, count = sizes.sum() / len(sizes), len(sizes)
        path = "dma"
        if not ((src | dst | sizes) & 7).any():
            times = [self.time_us(path, float(mean), count) for path in ("dma", "kernel")]
            path = "dma" if times[0] <= times[1] else "kernel"
        self.paths[path](src, dst, sizes)
