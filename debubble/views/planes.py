"""Packs columns so that they deflate to half the size: differences instead of growing numbers, and
first bytes, second bytes, … of a column side by side.

The browser's unpack.js does the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STEPS = 256
"""Steps per microsecond: times are on this grid of 4 ns, which is too fine to see."""
TIMES = {"start", "duration"}
GROWING = {"start", "launched_by"}
"""Columns of which each value is stored as its difference to the one above it."""

Layout = Sequence[tuple[str, str]]
"""The name and the NumPy type of each column, in their order."""


def to_planes(data: bytes, count: int, layout: Layout) -> bytes:
    """Returns columns of `count` values each as planes of bytes. Times are rounded to the grid, and
    the other columns keep each bit."""
    planes, offset = [], 0
    for name, dtype in layout:
        column = np.frombuffer(data, dtype, count, offset)
        offset += column.nbytes
        if name in TIMES:
            column = np.round(column.astype(np.float64) * STEPS).astype("<i8")
        if name in GROWING:
            column = np.diff(column, prepend=column.dtype.type(0))
        planes.append(np.ascontiguousarray(column).view(np.uint8).reshape(count, -1).T.tobytes())
    return b"".join(planes)


def from_planes(planes: bytes, count: int, layout: Layout) -> bytes:
    """Returns the columns of `to_planes`, as they were."""
    columns, offset = [], 0
    for name, dtype in layout:
        stored = np.dtype("<i8" if name in TIMES else dtype)
        size = count * stored.itemsize
        rows = np.frombuffer(planes, np.uint8, size, offset).reshape(stored.itemsize, count)
        offset += size
        column = np.ascontiguousarray(rows.T).view(stored).reshape(count)
        if name in GROWING:
            column = np.cumsum(column, dtype=stored)
        if name in TIMES:
            column = column / STEPS
        columns.append(column.astype(dtype).tobytes())
    return b"".join(columns)
