"""Pieces that continue one another, copied as one."""

from __future__ import annotations

import numpy as np


def merge_adjacent(
    src: np.ndarray, dst: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source addresses, target addresses and sizes in bytes, each int64 [M], M <= N, that copy the
    same bytes as those given, each int64 [N].

    A piece that begins where the piece before it in the list ends, in the source and in the target,
    becomes a part of it. Pieces of no bytes are left out, and keep nobody apart.
    """
    holds_bytes = sizes != 0
    if not holds_bytes.all():
        src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) < 2:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.concatenate(([0], np.flatnonzero(~continues) + 1))
    return src[first], dst[first], np.add.reduceat(sizes, first)
