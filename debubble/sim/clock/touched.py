"""The memory that an access touches."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch

from ..memory.blocks import Block, Part, Past, Span
from ..memory.chosen import Chosen
from ..memory.pieces import Pieces
from ..tensor import SimTensor

Where: TypeAlias = torch.Tensor | Span | Chosen
"""The memory that an access touches: all elements of a CPU tensor, a range of addresses, or a part
of a tensor that an index chooses."""


def touched(tensor: SimTensor, chosen: Chosen | None) -> Where | None:
    """Returns the part of `tensor` that an operator with this `chosen` touches, or None if that is
    not known."""
    if chosen is None:
        return None
    return chosen if tensor.block is chosen.block() else tensor.data_on_cpu


def is_all_of(block: Block, ranges: tuple[np.ndarray, np.ndarray]) -> bool:
    start, end = block.span()
    return int((ranges[1] - ranges[0]).sum()) >= end - start


def ranges(where: Where | Part) -> tuple[np.ndarray, np.ndarray]:
    """Returns the starts and ends of the touched address ranges, int64 [N] each."""
    if isinstance(where, tuple):
        return np.array(where[:1]), np.array(where[1:])
    if not isinstance(where, torch.Tensor):
        return where.ranges()
    pieces = Pieces.of(where)
    return pieces.starts, pieces.ends


def is_again(past: Past, before: Past) -> bool:
    """Returns True if `past` repeats the access `before` on the same stream and bytes. Each step
    reads the same weights, and this check is faster than computing their address ranges."""
    if past.wrote != before.wrote or past.access.stream != before.access.stream:
        return False
    where, there = past.where, before.where
    if not isinstance(where, torch.Tensor) or not isinstance(there, torch.Tensor):
        return where == there
    return where is there or (
        where.data_ptr() == there.data_ptr()
        and where.shape == there.shape
        and where.stride() == there.stride()
        and where.dtype == there.dtype
    )
