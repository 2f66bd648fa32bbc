"""How many tokens the graphs are captured for: a step runs in the smallest one that holds it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from .limits import Limits

LARGEST = 256
"""Of the default sizes: a larger step keeps the device busy while the host launches it."""


def default_capture_sizes(limits: Limits, largest: int = LARGEST) -> tuple[int, ...]:
    """1, 2, 4, 8, 16, 24, 32, … and the most tokens of a step, or `largest` if that is less."""
    last = min(limits.max_num_batched_tokens, largest)
    return tuple(sorted({size for size in (1, 2, 4, *range(8, last, 8)) if size < last} | {last}))


def checked_capture_sizes(
    sizes: Iterable[int], limits: Limits, most: str = "max_num_batched_tokens"
) -> tuple[int, ...]:
    """Each once, ascending. ValueError for one that no step can have; `most` names the limit."""
    largest = getattr(limits, most)
    for size in (sizes := sorted(set(sizes))):
        if not 1 <= size <= largest:
            raise ValueError(
                f"a graph for {size} tokens: capture sizes from 1 to {most}, which is {largest}"
            )
    return tuple(sizes)


def size_for(num_tokens: int, ascending_sizes: Sequence[int]) -> int | None:
    """The smallest size that holds so many tokens; None where there is none."""
    place = bisect_left(ascending_sizes, num_tokens)
    return ascending_sizes[place] if place < len(ascending_sizes) else None
