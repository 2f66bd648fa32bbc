"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

BLOCK = 16


class GroupMetadata(NamedTuple):
    """The metadata of a step on the device, int32: `starts` [R + 1] and `positions` [T] of all
    groups, and the `slots` [G, T] of each group."""

    starts: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
