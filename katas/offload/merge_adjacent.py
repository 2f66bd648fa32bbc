"""Pieces that continue one another (chapter 05, medium, 25 minutes).

When a request comes back whose KV cache lies in CPU memory, its blocks are copied to the GPU: a
list of pieces, each a source address, a target address and a size. The driver makes the host pay
for every piece, whatever its size: a microsecond or two, so for 4 KiB the host needs more time than
the link. But blocks are often neighbours, in CPU memory and on the GPU. The function below gets
such a list, and hands it on as it is.

Make one piece of those that continue one another: a piece that begins where the piece before it in
the list ends, in the source and in the target as well. The same bytes have to arrive at the same
places, and no others. Leave out pieces of no bytes, which the driver refuses. And a list may have
thousands of pieces: a loop over them in Python would take the host as long as the driver does.

You need to know NumPy: comparisons of whole arrays, `flatnonzero`, `add.reduceat`.

Edit this file, then run

    pytest katas/offload/test_merge_adjacent.py

Stuck?         debubble hint merge_adjacent
Start afresh?  debubble reset merge_adjacent
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
