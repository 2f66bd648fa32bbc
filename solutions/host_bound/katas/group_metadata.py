"""Metadata of a step for all KV groups: what they share once, and one upload."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import torch

from debubble.accelerator import current

from ..batch import BLOCK

Packed = TypeVar("Packed", np.ndarray, torch.Tensor)


class GroupMetadata(NamedTuple):
    """The metadata of a step on the device, int32: `starts` [R + 1] and `positions` [T] of all
    groups, and the `slots` [G, T] of each group."""

    starts: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor


def group_metadata(lengths: np.ndarray, cached: np.ndarray, tables: np.ndarray) -> GroupMetadata:
    """Returns a step's metadata. `lengths` [R] int32 are the new tokens of each request, `cached`
    [R] int32 the tokens before them, and `tables` [G, R, B] int32 the blocks of each request in
    each KV group."""
    accelerator = current()
    requests, groups, tokens = len(lengths), len(tables), int(lengths.sum())
    size = requests + 1 + (1 + groups) * tokens
    staged = torch.empty(size, dtype=torch.int32, pin_memory=accelerator.pin_memory)
    starts, positions, slots = parts(staged.numpy(), requests, tokens)
    starts[0] = 0
    starts[1:] = np.cumsum(lengths)
    of = np.repeat(np.arange(requests), lengths)
    positions[:] = np.arange(tokens) - starts[of] + cached[of]
    slots[:] = (tables[:, of, positions // BLOCK] * BLOCK + positions % BLOCK).ravel()
    packed = staged.to(accelerator.device, non_blocking=True)
    rows = parts(packed, requests, tokens)
    return GroupMetadata(rows[0], rows[1], rows[2].view(groups, tokens))


def parts(packed: Packed, requests: int, tokens: int) -> tuple[Packed, Packed, Packed]:
    """Returns the starts, the positions and the slots [G * T] in one packed array or tensor."""
    return (
        packed[: requests + 1],
        packed[requests + 1 : requests + 1 + tokens],
        packed[requests + 1 + tokens :],
    )
