"""Selects the path of a list of pieces by measured times, without anything else.

No system runs this. Ours merges when a transfer is planned, and selects when its lists are pinned
tensors already, in two files. The kata is about both together, and how one affects the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..paths.descriptors import WORD, merge_adjacent

CopyPieces = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""A function that copies sizes[i] bytes from address src[i] to address dst[i]; each is int64
[N]."""


def select_path(
    page_sizes: Sequence[int],
    paths: Mapping[str, CopyPieces],
    time_us: Callable[[str, float, int], float],
) -> CopyPieces:
    """Returns a function that copies lists of pieces by the "dma" or "kernel" of `paths`, whichever
    is faster for the list (vLLM #42212). Adjacent pieces are copied as one piece.

    `page_sizes` has the bytes of a page in each tensor of the cache. `time_us(path, nbytes, count)`
    was measured on this GPU: microseconds for `count` pieces, at least 1, of `nbytes` bytes on
    average. The kernel copies words of 8 bytes, so sizes and addresses must be multiples of 8.
    """

    def copy(src: np.ndarray, dst: np.ndarray, sizes: np.ndarray) -> None:
        columns = src, dst, sizes = merge_adjacent(src, dst, sizes)
        count = len(sizes)
        if count == 0:
            return
        fits_kernel = not any((column % WORD).any() for column in columns)
        mean = float(sizes.mean())
        among = paths if fits_kernel else ["dma"]
        fastest = min(among, key=lambda path: time_us(path, mean, count))
        paths[fastest](*columns)

    return copy
