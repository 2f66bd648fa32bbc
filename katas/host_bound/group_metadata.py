"""One builder for all groups (chapter 07, medium, 30 minutes).

A step's metadata has the start of each request, the position of each token, and the slot of the
cache that each token is written to. A slot is `block * BLOCK + position % BLOCK`, where the
request's block table has the block. Each KV group has tables of its own. The function below walks
over all tokens in Python, once for each group, and makes three uploads for each.

Compute what all groups share once, with NumPy, and send everything in one pinned upload. The host
must not wait and the device must compute nothing. The result of a step stays valid in later steps.

You need to know what a block table is, and how numbers are packed for one upload.

Edit this file, then run

    .venv/bin/pytest katas/host_bound/test_group_metadata.py

Stuck?         .venv/bin/debubble hint group_metadata
Start afresh?  .venv/bin/debubble reset group_metadata
"""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import current
from katas.host_bound.given import BLOCK, GroupMetadata


# Yours to edit, from here on.
def upload(values: list[int]) -> torch.Tensor:
    accelerator = current()
    staged = torch.tensor(values, dtype=torch.int32, pin_memory=accelerator.pin_memory)
    return staged.to(accelerator.device, non_blocking=True)


def group_metadata(lengths: np.ndarray, cached: np.ndarray, tables: np.ndarray) -> GroupMetadata:
    """Returns a step's metadata. `lengths` [R] int32 are the new tokens of each request, `cached`
    [R] int32 the tokens before them, and `tables` [G, R, B] int32 the blocks of each request in
    each KV group."""
    slots = []
    for table in tables:
        starts, positions, of_group = [0], [], []
        for request, length in enumerate(lengths.tolist()):
            starts.append(starts[-1] + length)
            for token in range(length):
                position = int(cached[request]) + token
                positions.append(position)
                block = int(table[request, position // BLOCK])
                of_group.append(block * BLOCK + position % BLOCK)
        metadata = upload(starts), upload(positions)
        slots.append(upload(of_group))
    return GroupMetadata(*metadata, torch.stack(slots))
