"""Names for blocks: equal where keys and values are equal, whoever computed them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from solutions.pinned_h2d.ranges import Span


def block_hashes(
    tokens: Sequence[int], spans: Sequence[Span], block_size: int, known: Sequence[bytes] = ()
) -> list[bytes]:
    """A hash for each full block behind those that are `known`: of all that its keys and values
    depend on.

    That is each token up to its end; and where an image begins before that and goes on behind it,
    the whole image, since its tokens see one another both ways. An image's place counts too: the
    same ids without it would see less. A block whose image is not complete has no hash.
    """
    ids = np.asarray(tokens, dtype="<i8")
    hashes, previous = [], known[-1] if known else b""
    for end in range((len(known) + 1) * block_size, len(ids) + 1, block_size):
        start = end - block_size
        own = [span for span in spans if span[0] < end and span[1] >= start]
        until = max([end, *(last + 1 for _, last in own)])
        if until > len(ids):
            break
        contents = ids[start:until].tobytes() + np.asarray(own, dtype="<i8").tobytes()
        previous = hashlib.sha256(previous + contents).digest()
        hashes.append(previous)
    return hashes
