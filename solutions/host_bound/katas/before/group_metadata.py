"""Metadata of a step, built again for each KV group."""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import current

from ...batch import BLOCK
from ..group_metadata import GroupMetadata


def group_metadata(lengths: np.ndarray, cached: np.ndarray, tables: np.ndarray) -> GroupMetadata:
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


def upload(values: list[int]) -> torch.Tensor:
    accelerator = current()
    staged = torch.tensor(values, dtype=torch.int32, pin_memory=accelerator.pin_memory)
    return staged.to(accelerator.device, non_blocking=True)
