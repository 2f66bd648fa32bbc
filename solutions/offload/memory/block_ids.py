"""Which blocks a transfer moves, checked before anything is queued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .kv_tensors import KVGroup

Blocks = Sequence[int] | np.ndarray
"""Ids of blocks that follow one another in a request."""


class GroupBlocks(NamedTuple):
    """Of one group: GPU block i and the CPU sub-block `skip + i` are each other's copies."""

    gpu: np.ndarray
    """int64 [n]."""
    cpu: np.ndarray
    """int64 [ceil((skip + n) / factor)]."""
    skip: int
    """Sub-blocks of the first CPU block that take no part."""


def checked_blocks(
    groups: Sequence[KVGroup],
    gpu_blocks: Sequence[Blocks],
    cpu_blocks: Sequence[Blocks],
    skip: int | Sequence[int],
    gpu_to_cpu: bool,
) -> list[GroupBlocks]:
    """One for each group. ValueError, naming the group and the block, for lists of other lengths,
    ids that there are not, and a destination that is named twice."""
    skips = [skip] * len(groups) if isinstance(skip, int) else list(skip)
    for name, lists in (("gpu_blocks", gpu_blocks), ("cpu_blocks", cpu_blocks), ("skip", skips)):
        if len(lists) != len(groups):
            raise ValueError(f"{name} has {len(lists)} entries for {len(groups)} groups: give each")
    checked = []
    for index, group in enumerate(groups):
        try:
            gpu = _ids("GPU", gpu_blocks[index], group.num_gpu_blocks)
            cpu = _ids("CPU", cpu_blocks[index], group.num_cpu_blocks)
            _check_lengths(len(gpu), len(cpu), skips[index], group.block_size_factor)
            _expect_no_block_twice(*(("CPU", cpu) if gpu_to_cpu else ("GPU", gpu)))
        except ValueError as error:
            raise ValueError(f"group {index}: {error}") from None
        checked.append(GroupBlocks(gpu, cpu, skips[index]))
    return checked


def _ids(side: str, blocks: Blocks, num_blocks: int) -> np.ndarray:
    ids = np.asarray(blocks)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise ValueError(
            f"{side} blocks are {ids.dtype} {list(ids.shape)}: give a list of whole numbers"
        )
    outside = (ids < 0) | (ids >= num_blocks)
    if outside.any():
        raise ValueError(
            f"{side} block {ids[outside.argmax()]} is out of range: there are {num_blocks}"
        )
    return ids.astype(np.int64)


def _check_lengths(num_gpu: int, num_cpu: int, skip: int, factor: int) -> None:
    if not 0 <= skip < factor:
        raise ValueError(
            f"a skip of {skip} sub-blocks: a CPU block has {factor}, skip fewer than that"
        )
    needed = -(-(skip + num_gpu) // factor) if num_gpu else 0
    if num_cpu != needed:
        raise ValueError(
            f"{num_gpu} GPU blocks behind a skip of {skip} are part of {needed} CPU blocks of "
            f"{factor}, and {num_cpu} are given"
        )


def _expect_no_block_twice(side: str, ids: np.ndarray) -> None:
    in_order = np.sort(ids)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(repeated):
        raise ValueError(f"{side} block {repeated[0]} is a destination twice: its bytes would mix")
