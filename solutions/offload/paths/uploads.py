"""Uploads a list of pieces, for a kernel that is not to read it over the link."""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import Accelerator

from .descriptors import WORD, Columns, Descriptors, are_side_by_side


def table_of(columns: Columns) -> torch.Tensor | None:
    """Returns the int64 [N, 3] tensor whose columns these three tensors are, without a copy; None
    if they are not the columns of one tensor."""
    first = columns[0]
    if not are_side_by_side(columns) or any(column.stride(0) != 3 for column in columns):
        return None
    last = first.storage_offset() + 3 * len(first)
    if WORD * last > first.untyped_storage().nbytes():
        return None  # Each column is a separate tensor: the first one can't see its neighbours.
    return first.as_strided((len(first), 3), (3, 1))


def staged(accelerator: Accelerator, descriptors: Descriptors) -> torch.Tensor:
    """Returns a new tensor int64 [N, 3] in pinned memory, a row for each of these descriptors. It
    may be dropped once its copy is queued: PyTorch keeps it until the copy is done."""
    rows = (len(descriptors), 3)
    table = torch.empty(rows, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    columns = [descriptors.sources, descriptors.targets, descriptors.sizes]
    np.stack(columns, axis=1, out=table.numpy())
    return table


def uploaded(accelerator: Accelerator, table: torch.Tensor) -> Columns:
    """Returns the columns of `table`, int64 [N, 3], on the device, sent by one copy without a
    wait."""
    sources, targets, sizes = table.to(accelerator.device, non_blocking=True).unbind(1)
    return sources, targets, sizes
