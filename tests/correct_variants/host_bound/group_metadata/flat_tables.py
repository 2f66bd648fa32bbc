"""Repeats the shift of each request, and gathers blocks from the flat tables."""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import current
from katas.host_bound.given import BLOCK, GroupMetadata


def upload(staged: torch.Tensor) -> torch.Tensor:
    """Returns a pinned tensor's numbers on the device."""
    return staged.to(current().device, non_blocking=True)


def group_metadata(lengths: np.ndarray, cached: np.ndarray, tables: np.ndarray) -> GroupMetadata:
    """Returns a step's metadata. `lengths` [R] int32 are the new tokens of each request, `cached`
    [R] int32 the tokens before them, and `tables` [G, R, B] int32 the blocks of each request in
    each KV group."""
    (groups, requests, columns), tokens = tables.shape, int(lengths.sum())
    sizes = [requests + 1, tokens, groups * tokens]
    staged = torch.zeros(sum(sizes), dtype=torch.int32, pin_memory=current().pin_memory)
    starts, positions, slots = (part.numpy() for part in staged.split(sizes))
    starts[1:] = np.cumsum(lengths)
    # A token's number in the step plus the shift of its request is its position.
    positions[:] = np.arange(tokens) + np.repeat(cached - starts[:-1], lengths)
    page, offset = np.divmod(positions, BLOCK)
    entry = np.repeat(np.arange(requests) * columns, lengths) + page
    blocks = tables.reshape(groups, requests * columns)[:, entry]
    slots.reshape(groups, tokens)[...] = blocks * BLOCK + offset
    on_device = upload(staged).split(sizes)
    return GroupMetadata(on_device[0], on_device[1], on_device[2].view(groups, tokens))
