"""The addresses of blocks, compared with a plain loop over blocks, sub-blocks and tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from solutions.offload.memory.blocks import (
    GroupBlocks,
    checked_blocks,
    pieces_of,
)
from solutions.offload.memory.kv_tensors import KVGroup, KVTensors

PAGE = 32


def ids(*blocks):
    return np.array(blocks, dtype=np.int64)


def group_of(accelerator, factor, num_tensors=2, copied_bytes=None):
    return KVGroup(
        [
            KVTensors(
                torch.zeros((12, PAGE), dtype=torch.int8, device=accelerator.device),
                torch.zeros((8, PAGE * factor), dtype=torch.int8, pin_memory=True),
                copied_bytes,
            )
            for _ in range(num_tensors)
        ],
        factor,
    )


def written(pieces):
    """Returns (GPU address, CPU address, bytes) of each descriptor that the pieces write."""
    rows = []
    for piece in pieces:
        table = np.full((3, piece.num_descriptors), -1, dtype=np.int64)
        piece.write_to(*table)
        rows += zip(*table.tolist(), strict=True)
    return rows


def by_loop(group, blocks):
    """Returns the same descriptors as the code under test, computed block by block, without
    merging."""
    rows, factor = [], group.block_size_factor
    for pair in group.tensors:
        for place, gpu_block in enumerate(blocks.gpu.tolist()):
            cpu_block, sub_block = divmod(blocks.skip + place, factor)
            gpu = pair.gpu.data_ptr() + gpu_block * pair.strides[0]
            cpu = pair.cpu.data_ptr() + int(blocks.cpu[cpu_block]) * pair.strides[1]
            rows.append((gpu, cpu + sub_block * pair.page, pair.copied_bytes))
    return rows


def bytes_of(rows):
    """Returns {address of each GPU byte: address of its CPU byte} for (GPU address, CPU address,
    bytes) rows."""
    return {gpu + i: cpu + i for gpu, cpu, size in rows for i in range(size)}


@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("copied_bytes", [None, 24])
def test_descriptors_are_those_of_a_loop(accelerator, factor, copied_bytes):
    group = group_of(accelerator, factor, num_tensors=3, copied_bytes=copied_bytes)
    blocks = GroupBlocks(
        ids(7, 0, 11, 3), ids(6, 1, 4, 0)[: -(-(4 + factor // 2) // factor)], factor // 2
    )
    pieces = pieces_of(group, blocks, merge=False)
    assert written(pieces) == by_loop(group, blocks)
    assert sum(piece.num_bytes for piece in pieces) == 3 * 4 * (copied_bytes or PAGE)


def test_neighbours_on_both_sides_are_one_piece(accelerator):
    group = group_of(accelerator, 1)
    blocks = GroupBlocks(ids(2, 3, 4, 9, 10), ids(5, 6, 7, 2, 3), 0)
    rows = written(pieces_of(group, blocks))
    assert [size for *_, size in rows] == [96, 64] * 2
    assert bytes_of(rows) == bytes_of(by_loop(group, blocks))


def test_a_few_neighbours_by_chance_stay_apart(accelerator):
    """A few adjacent blocks among many that aren't adjacent are not merged: a single longer piece
    would make a kernel cut all pieces."""
    group = group_of(accelerator, 1)
    blocks = GroupBlocks(ids(2, 3, 4, 9, 10), ids(5, 6, 1, 2, 3), 0)
    assert [size for *_, size in written(pieces_of(group, blocks))] == [PAGE] * 5 * 2


def test_a_cpu_block_of_neighbours_is_one_piece(accelerator):
    group = group_of(accelerator, 3, num_tensors=1)
    blocks = GroupBlocks(ids(4, 5, 6, 7), ids(1, 2), 1)
    assert [size for *_, size in written(pieces_of(group, blocks))] == [4 * PAGE]


def test_padding_keeps_neighbours_apart(accelerator):
    group = group_of(accelerator, 1, copied_bytes=24)
    blocks = GroupBlocks(ids(2, 3), ids(5, 6), 0)
    assert [size for *_, size in written(pieces_of(group, blocks))] == [24] * 4


def test_nothing_is_merged_across_tensors(accelerator):
    """Blocks are merged within a tensor only. The last block of one tensor and the first of the
    next may be adjacent by chance."""
    gpu = torch.zeros((8, PAGE), dtype=torch.int8, device=accelerator.device)
    cpu = torch.zeros((8, PAGE), dtype=torch.int8, pin_memory=True)
    group = KVGroup([KVTensors(gpu[:4], cpu[:4]), KVTensors(gpu[4:], cpu[4:])])
    blocks = GroupBlocks(ids(0, 1, 2, 3), ids(0, 1, 2, 3), 0)
    assert [size for *_, size in written(pieces_of(group, blocks))] == [4 * PAGE] * 2


@given(data=st.data())
def test_merged_or_not_the_same_bytes_are_copied(accelerator, data):
    factor = data.draw(st.integers(1, 4))
    group = group_of(accelerator, factor)
    gpu = data.draw(st.lists(st.integers(0, 11), max_size=10, unique=True))
    skip = data.draw(st.integers(0, factor - 1))
    needed = -(-(skip + len(gpu)) // factor) if gpu else 0
    cpu = data.draw(st.permutations(range(8)).filter(lambda p: len(p) >= needed))[:needed]
    if needed > 8:
        return
    (blocks,) = checked_blocks([group], [gpu], [cpu], skip, gpu_to_cpu=True)
    rows = written(pieces_of(group, blocks))
    assert bytes_of(rows) == bytes_of(by_loop(group, blocks))
    assert len(rows) <= len(by_loop(group, blocks))
