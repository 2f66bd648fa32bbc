"""Byte addresses of blocks, where a CPU block holds one GPU block or several."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..paths.merging import merge_adjacent
from .block_ids import GroupBlocks
from .kv_tensors import KVGroup, Layout

MERGES = 2
"""Blocks in a piece, on average, from which on merging pays. Else a few pieces would be longer than
the rest, and a kernel would have to cut them again."""


class Pieces(NamedTuple):
    """What a transfer copies in each tensor of a layout: int64 [num_pieces] each, in bytes."""

    layout: Layout
    gpu_offsets: np.ndarray
    """From where a tensor begins."""
    cpu_offsets: np.ndarray
    sizes: np.ndarray

    @property
    def num_descriptors(self) -> int:
        return self.layout.num_tensors * len(self.sizes)

    @property
    def num_bytes(self) -> int:
        return self.layout.num_tensors * int(self.sizes.sum())

    def write_to(self, gpu: np.ndarray, cpu: np.ndarray, sizes: np.ndarray) -> None:
        """Fills int64 [num_descriptors] each: addresses on both sides, bytes, tensor by tensor."""
        table = (self.layout.num_tensors, len(self.sizes))
        np.add.outer(self.layout.gpu_bases, self.gpu_offsets, out=gpu.reshape(table))
        np.add.outer(self.layout.cpu_bases, self.cpu_offsets, out=cpu.reshape(table))
        sizes.reshape(table)[:] = self.sizes


def pieces_of(group: KVGroup, blocks: GroupBlocks, merge: bool = True) -> list[Pieces]:
    """One for each layout of a group. With `merge` blocks that follow one another on both sides are
    one piece, where that leaves far fewer of them."""
    return [_pieces(layout, group.block_size_factor, blocks, merge) for layout in group.layouts]


def _pieces(layout: Layout, factor: int, blocks: GroupBlocks, merge: bool) -> Pieces:
    count = len(blocks.gpu)
    gpu_offsets = blocks.gpu * layout.gpu_stride
    cpu_offsets = sub_block_offsets(
        blocks.cpu, layout.cpu_stride, layout.page, factor, blocks.skip, count
    )
    sizes = np.full(count, layout.copied_bytes, dtype=np.int64)
    pieces = (gpu_offsets, cpu_offsets, sizes)
    if merge:
        # Within a tensor: what happens to lie behind it may belong to another allocation.
        merged = merge_adjacent(*pieces)
        if MERGES * len(merged[0]) <= count:
            pieces = merged
    return Pieces(layout, *pieces)


def sub_block_offsets(
    blocks: np.ndarray, row_stride: int, sub_size: int, factor: int, skip: int, count: int
) -> np.ndarray:
    """int64 [count]: in bytes from the tensor's start, where the sub-blocks `skip` to
    `skip + count - 1` of `blocks` int64 begin. Each block has `factor` of them, `sub_size` bytes
    from one to the next, and `row_stride` bytes to the next block."""
    in_a_block = np.arange(factor) * sub_size
    return np.add.outer(blocks * row_stride, in_a_block).ravel()[skip : skip + count]
