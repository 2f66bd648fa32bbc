"""Uploads a list of pieces, for a kernel that is not to read it over the link."""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import Accelerator

from .descriptors import WORD, Columns, Descriptors, are_one_table


def table_of(columns: Columns) -> torch.Tensor | None:
    """Returns the int64 [3, N] tensor whose rows these three tensors are, without a copy; None if
    they are not the rows of one tensor."""
    first = columns[0]
    if not are_one_table(columns):
        return None
    last = first.storage_offset() + 3 * len(first)
    if WORD * last > first.untyped_storage().nbytes():
        return None  # Each column is a separate tensor: the first one can't see its neighbours.
    return first.as_strided((3, len(first)), (len(first), 1))


def staged(accelerator: Accelerator, descriptors: Descriptors) -> torch.Tensor:
    """Returns a new tensor int64 [3, N] in pinned memory, a column for each of these descriptors.
    It may be dropped once its copy is queued: PyTorch keeps it until the copy is done."""
    shape = (3, len(descriptors))
    table = torch.empty(shape, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    np.stack([descriptors.sources, descriptors.targets, descriptors.sizes], out=table.numpy())
    return table


def uploaded(accelerator: Accelerator, table: torch.Tensor) -> Columns:
    """Returns the rows of `table`, int64 [3, N], on the device, sent by one copy without a
    wait."""
    sources, targets, sizes = table.to(accelerator.device, non_blocking=True).unbind()
    return sources, targets, sizes
