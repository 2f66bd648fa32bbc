"""One path for all lists, chosen by the size of the largest page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...choice.presets import THRESHOLD_BYTES
from ...paths.descriptors import merge_adjacent
from ..select_path import CopyPieces


def select_path(
    page_sizes: Sequence[int],
    paths: Mapping[str, CopyPieces],
    time_us: Callable[[str, float, int], float],
) -> CopyPieces:
    """Returns a function that copies every list by the same path, chosen by the page sizes alone.
    The measured times are ignored."""
    is_large = max(page_sizes) >= THRESHOLD_BYTES
    is_odd = any(page % 8 for page in page_sizes)
    path = "dma" if is_large or is_odd else "kernel"

    def copy(src: np.ndarray, dst: np.ndarray, sizes: np.ndarray) -> None:
        paths[path](*merge_adjacent(src, dst, sizes))

    return copy
