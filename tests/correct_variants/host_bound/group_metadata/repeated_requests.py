"""Finds the request of each token by repeat, and uploads one new pinned tensor of all numbers."""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import current
from katas.host_bound.given import BLOCK, GroupMetadata


def upload(values: np.ndarray) -> torch.Tensor:
    """Returns the numbers as int32 on the device, by one upload from pinned memory of their own."""
    accelerator = current()
    staged = torch.empty(len(values), dtype=torch.int32, pin_memory=accelerator.pin_memory)
    staged.numpy()[:] = values
    return staged.to(accelerator.device, non_blocking=True)


def group_metadata(lengths: np.ndarray, cached: np.ndarray, tables: np.ndarray) -> GroupMetadata:
    """Returns a step's metadata. `lengths` [R] int32 are the new tokens of each request, `cached`
    [R] int32 the tokens before them, and `tables` [G, R, B] int32 the blocks of each request in
    each KV group."""
    requests, groups, tokens = len(lengths), len(tables), int(lengths.sum())
    starts = np.zeros(requests + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    of = np.repeat(np.arange(requests), lengths)
    positions = np.arange(tokens) - starts[of] + cached[of]
    slots = tables[:, of, positions // BLOCK] * BLOCK + positions % BLOCK
    packed = upload(np.concatenate([starts, positions, slots.ravel()]))
    return GroupMetadata(
        packed[: requests + 1],
        packed[requests + 1 : requests + 1 + tokens],
        packed[requests + 1 + tokens :].view(groups, tokens),
    )
