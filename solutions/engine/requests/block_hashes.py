"""Names the full blocks of a request by hashes, so that equal prefixes are found in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from solutions.pinned_h2d.ranges import Span


def block_hashes(
    tokens: Sequence[int],
    spans: Sequence[Span],
    block_size: int,
    known: Sequence[bytes] = (),
    image_names: Sequence[bytes] = (),
    layout: bytes = b"",
) -> list[bytes]:
    """Returns the hashes of the full blocks of `tokens`, which come after the blocks whose hashes
    are `known`. `layout` stands for the cache's layout and dtype: blocks of two caches have no hash
    in common.

    A hash covers all that the block's keys and values depend on: each token up to the block's end,
    and the whole of an image that continues after that end, since its tokens attend to one another
    both ways. It covers an image's place too: the same ids without an image would attend to fewer
    tokens. A block whose image is not complete has no hash. `image_names` has a name of each
    image's contents, for models in which the same ids may stand for different images.
    """
    ids = np.asarray(tokens, dtype="<i8")
    hashes, previous = [], known[-1] if known else layout
    first = len(known) * block_size
    for start in range(first, first + len(ids) - block_size + 1, block_size):
        end = start + block_size
        own = [span for span in spans if span[0] < end and span[1] >= start]
        until = max([end, *(last + 1 for _, last in own)])
        if until > first + len(ids):
            break
        contents = ids[start - first : until - first].tobytes()
        if own:
            contents += np.asarray(own, dtype="<i8").tobytes()
            contents += b"".join(
                name for name, span in zip(image_names, spans, strict=False) if span in own
            )
        previous = hashlib.sha256(previous + contents).digest()
        hashes.append(previous)
    return hashes
