"""The path that was the fastest (chapter 05, medium, 25 minutes).

A list of pieces can be copied in two ways. The DMA engine copies large pieces at the speed of the
link, but each piece costs the host time. A kernel costs one launch, however many pieces there are,
and is a little slower if pieces are large. Which of the two is faster depends on the number of
pieces, on their length, and on the machine. The function below decides once, by the size of a page
and a threshold that was right on one H100. Later lists need not look like that: parts of a page,
many blocks as one piece, or just three blocks.

Choose one path for the whole list in each call, from the pieces that are really copied and the
times that were measured on this GPU: `time_us` returns them. `page_sizes` decides nothing, not even
if a page is no multiple of 8. If a size or an address of one merged piece is no multiple of 8, the
whole list goes to the DMA engine, whatever the times. If no piece is left, call neither a path nor
`time_us`: there is nothing to copy.

You need to know closures, and the list of pieces of `merge_adjacent`.

Edit this file, then run

    .venv/bin/pytest katas/offload/test_select_path.py

Stuck?         .venv/bin/debubble hint select_path
Start afresh?  .venv/bin/debubble reset select_path
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from katas.offload.given import CopyPieces, merge_adjacent

THRESHOLD_BYTES = 28 * 1024


# Yours to edit, from here on.
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
    is_large = max(page_sizes) >= THRESHOLD_BYTES
    is_odd = any(page % 8 for page in page_sizes)
    path = "dma" if is_large or is_odd else "kernel"

    def copy(src: np.ndarray, dst: np.ndarray, sizes: np.ndarray) -> None:
        paths[path](*merge_adjacent(src, dst, sizes))

    return copy
