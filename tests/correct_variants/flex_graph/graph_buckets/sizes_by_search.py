"""Finds each next smaller size by trying all, from the smallest up."""


def bucket_sizes(most, percent):
    sizes = [most]
    while 100 * (sizes[0] - 1) > percent * sizes[0]:
        size = sizes[0]
        fits = lambda below, size=size: 100 * (size - below - 1) <= percent * size
        sizes.insert(0, next(below for below in range(1, size) if fits(below)))
    return sizes
