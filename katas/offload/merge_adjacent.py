"""Pieces that continue one another (chapter 05, medium, 25 minutes).

When a request returns whose KV cache lies in CPU memory, its blocks are copied to the GPU: a list
of pieces, each with a source address, a target address and a size. The driver costs the host a
microsecond or two for every piece, whatever its size: for 4 KiB that is longer than the link takes.
But blocks are often neighbours, both in CPU memory and on the GPU. The function below gets such a
list, and returns it as it is.

Merge pieces that continue each other: a piece that begins where the piece before it in the list
ends, both in the source and in the target. The same bytes have to arrive at the same places, and no
other bytes. Leave out pieces of 0 bytes, because the driver refuses them. A list may have thousands
of pieces: a Python loop over them would take the host as long as the driver does.

You need to know NumPy: comparisons of whole arrays, `flatnonzero`, `add.reduceat`.

Edit this file, then run

    .venv/bin/pytest katas/offload/test_merge_adjacent.py

Stuck?         .venv/bin/debubble hint merge_adjacent
Start afresh?  .venv/bin/debubble reset merge_adjacent
"""

from __future__ import annotations

import numpy as np


# Yours to edit, from here on.
def merge_adjacent(
    src: np.ndarray, dst: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns source addresses, target addresses and sizes in bytes, int64 [M] each with M <= N,
    that copy the same bytes as the arguments, int64 [N] each.

    A piece that begins where the piece before it in the list ends, in the source and in the target,
    is joined to it. Pieces of 0 bytes are dropped, and do not separate their neighbours.
    """
    return src, dst, sizes
