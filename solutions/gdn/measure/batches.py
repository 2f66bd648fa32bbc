"""The batches on which forwards are compared: fixed ones, and ones drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

STRONG, MILD = "strong", "mild"
"""Gates: a strong gate lets a state fade within a few tokens, a mild one within a few hundred."""
DRAWN = 6
"""Number of batches drawn by the seed."""
DRAWN_TOKENS = (4096, 16384)
MOST_DRAWN_SEQUENCES = 64


class GatedBatch(NamedTuple):
    """A batch of sequences, and how their gates are drawn."""

    sequences: str
    lengths: tuple[int, ...]
    gate: str = STRONG


BATCHES = (
    GatedBatch("8192", (8192,)),
    GatedBatch("2 x 4096", (4096,) * 2),
    GatedBatch("2048, 6144", (2048, 6144)),
    GatedBatch("8 x 1024", (1024,) * 8),
    GatedBatch("128 x 64", (64,) * 128),
    GatedBatch("32768", (32768,)),
    GatedBatch("8192", (8192,), MILD),
    GatedBatch("8 x 1024", (1024,) * 8, MILD),
    GatedBatch("32768", (32768,), MILD),
)


def drawn_batches(seed: int) -> Iterator[GatedBatch]:
    """Yields batches of random lengths, the same ones for the same seed. Each has 4096 to 16,384
    tokens in 1 to 64 sequences."""
    numbers = random.Random(seed)
    for number in range(1, DRAWN + 1):
        tokens = numbers.randint(*DRAWN_TOKENS)
        # Small numbers of sequences are as likely as large ones.
        sequences = round(MOST_DRAWN_SEQUENCES ** numbers.random())
        cuts = sorted(numbers.sample(range(1, tokens), sequences - 1))
        lengths = tuple(end - start for start, end in pairwise([0, *cuts, tokens]))
        yield GatedBatch(f"drawn {number}", lengths)


def chosen(batches: Iterable[GatedBatch], names: Sequence[str] | None) -> list[GatedBatch]:
    """Returns the batches with these names; all of them if `names` is None. Raises ValueError for a
    name that no batch has."""
    batches = list(batches)
    known = {batch.sequences for batch in batches}
    for name in names or ():
        if name not in known:
            raise ValueError(f"No row is named {name!r}: the rows are {', '.join(sorted(known))}.")
    return [batch for batch in batches if names is None or batch.sequences in names]
