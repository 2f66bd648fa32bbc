"""Translates block ids to byte addresses: which blocks a transfer moves, and where their bytes
lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solutions.common.shown import shown

from ..paths.descriptors import Descriptors, merge_adjacent
from .kv_tensors import KVGroup, Layout

MERGES = 2
"""Fewest blocks that a merged piece must have on average, else no blocks are merged: a few pieces
would be longer than the rest, and a kernel would have to cut them again."""
Blocks = Sequence[int] | np.ndarray
"""Ids of blocks, in the order of their tokens in a request."""


class GroupBlocks(NamedTuple):
    """The blocks of one group that a transfer moves: GPU block gpu[i] to or from CPU sub-block
    `skip + i`.

    A CPU block is `factor` sub-blocks, each as large as a GPU block. Sub-blocks are counted through
    all of `cpu`.
    """

    gpu: np.ndarray
    """int64 [n] ids of GPU blocks, each a source or destination."""
    cpu: np.ndarray
    """int64 [ceil((skip + n) / factor)] ids of the CPU blocks that hold the sub-blocks."""
    skip: int
    """Number of sub-blocks at the start of the first CPU block that are left out."""


def checked_blocks(
    groups: Sequence[KVGroup],
    gpu_blocks: Sequence[Blocks],
    cpu_blocks: Sequence[Blocks],
    skip: int | Sequence[int],
    gpu_to_cpu: bool,
) -> list[GroupBlocks]:
    """Returns the blocks that a transfer moves, one GroupBlocks for each group, from the arguments
    of `transfer_async`.

    Raises ValueError, naming the group and the block, for lists whose lengths don't fit, ids out of
    range, and a destination that is named twice.
    """
    skips = [skip] * len(groups) if isinstance(skip, int | np.integer) else skip
    for name, lists in (("gpu_blocks", gpu_blocks), ("cpu_blocks", cpu_blocks), ("skip", skips)):
        if len(lists) != len(groups):
            raise ValueError(f"{name} has {len(lists)} entries for {len(groups)} groups: give each")
    checked = []
    for index, group in enumerate(groups):
        try:
            gpu = _ids("GPU", gpu_blocks[index], len(group.tensors[0].gpu))
            cpu = _ids("CPU", cpu_blocks[index], len(group.tensors[0].cpu))
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
            f"a skip of {shown(skip)} sub-blocks: a CPU block has {factor}, skip fewer than that"
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


class Pieces(NamedTuple):
    """The contiguous pieces of memory that a transfer copies, the same in each tensor of `layout`.
    Arrays are int64 [num_pieces]."""

    layout: Layout
    gpu_offsets: np.ndarray
    """Start of each piece, in bytes from the start of the GPU tensor."""
    cpu_offsets: np.ndarray
    """Start of each piece, in bytes from the start of the CPU tensor."""
    sizes: np.ndarray
    """Bytes of each piece."""

    @property
    def num_descriptors(self) -> int:
        return len(self.layout.gpu_bases) * len(self.sizes)

    @property
    def num_bytes(self) -> int:
        return len(self.layout.gpu_bases) * int(self.sizes.sum())

    def write_to(self, gpu: np.ndarray, cpu: np.ndarray, sizes: np.ndarray) -> None:
        """Fills three arrays, int64 [num_descriptors], tensor by tensor: the GPU address of each
        piece, its CPU address, and its size in bytes."""
        table = (len(self.layout.gpu_bases), len(self.sizes))
        np.add.outer(self.layout.gpu_bases, self.gpu_offsets, out=gpu.reshape(table))
        np.add.outer(self.layout.cpu_bases, self.cpu_offsets, out=cpu.reshape(table))
        sizes.reshape(table)[:] = self.sizes


def pieces_of(group: KVGroup, blocks: GroupBlocks, merge: bool = True) -> list[Pieces]:
    """Returns the pieces of the blocks of one group: a `Pieces` for each of its layouts. With
    `merge`, blocks that are adjacent in both memories become one piece, if that leaves at most half
    as many pieces."""
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
        # Merged only within a tensor: memory after its end may belong to another allocation.
        merged = merge_adjacent(*pieces)
        if MERGES * len(merged[0]) <= count:
            pieces = merged
    return Pieces(layout, *pieces)


def sub_block_offsets(
    blocks: np.ndarray, row_stride: int, sub_size: int, factor: int, skip: int, count: int
) -> np.ndarray:
    """Returns the starts of the sub-blocks `skip` to `skip + count - 1` of `blocks`, int64 [n]:
    int64 [count], in bytes from the tensor's start. Each block has `factor` sub-blocks, `sub_size`
    bytes apart, and blocks are `row_stride` bytes apart."""
    in_a_block = np.arange(factor) * sub_size
    return np.add.outer(blocks * row_stride, in_a_block).ravel()[skip : skip + count]


def pieces_of_all(
    groups: Sequence[KVGroup], blocks: Sequence[GroupBlocks], merge: bool
) -> list[Pieces]:
    """Returns the pieces of the blocks of all groups in one list, in the order of the groups, as
    `pieces_of` returns them for one group; blocks[i] belongs to groups[i]."""
    return [
        piece
        for group, of_group in zip(groups, blocks, strict=True)
        for piece in pieces_of(group, of_group, merge)
    ]


def num_descriptors(pieces: Sequence[Pieces]) -> int:
    """Returns the number of descriptors, one for each piece in each tensor, that copying `pieces`
    takes."""
    return sum(piece.num_descriptors for piece in pieces)


def write_descriptors(pieces: Sequence[Pieces], table: np.ndarray, gpu_to_cpu: bool) -> None:
    """Fills `table`, int64 [3, num_descriptors(pieces)], with addresses of sources, addresses of
    destinations, and sizes in bytes. The GPU is the source if `gpu_to_cpu`."""
    first, second, sizes = table
    gpu, cpu = (first, second) if gpu_to_cpu else (second, first)
    start = 0
    for piece in pieces:
        part = slice(start, start + piece.num_descriptors)
        piece.write_to(gpu[part], cpu[part], sizes[part])
        start = part.stop


def check_targets(pieces: Sequence[Pieces], gpu_to_cpu: bool) -> None:
    """Raises ValueError, naming the descriptor, if two of the pieces would write the same bytes."""
    table = np.empty((3, num_descriptors(pieces)), dtype=np.int64)
    write_descriptors(pieces, table, gpu_to_cpu)
    Descriptors(*table).check()
