"""Buckets: the few sizes that a server is warmed up for, and to which it pads each step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence


def buckets_up_to(most: int) -> list[int]:
    """Returns 1, 2, 4, 8, and multiples of 16 that grow by a quarter, up to at least `most`."""
    sizes = [size for size in (1, 2, 4, 8) if size < most]
    size = 16
    while size < most:
        sizes.append(size)
        size += max(16, size // 64 * 16)
    return [*sizes, size if most > 8 else most]


def growing_by(percent: int, most: int) -> list[int]:
    """Returns sizes from 1 to `most`, each at most `percent` larger than the one before it, or
    larger by 1."""
    sizes = [1]
    while sizes[-1] < most:
        sizes.append(min(most, max(sizes[-1] + 1, sizes[-1] * (100 + percent) // 100)))
    return sizes


def bucket_for(size: int, buckets: Sequence[int]) -> int:
    """Returns the smallest bucket that holds `size`. Raises ValueError if none does."""
    at = bisect_left(buckets, size)
    if at == len(buckets):
        raise ValueError(f"{size} is more than the largest bucket, {buckets[-1]}")
    return buckets[at]


def warm_up(step: Callable[[int], object], buckets: Sequence[int]) -> None:
    """Calls `step` once for each bucket, the largest first, so that memory is allocated for the
    largest and reused by all others."""
    for size in reversed(buckets):
        step(size)
