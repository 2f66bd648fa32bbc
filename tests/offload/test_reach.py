"""The memory that a kernel can reach, and the memory that the copy engine can reach."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from debubble.accelerator import MemoryRange
from solutions.offload import Descriptors
from solutions.offload.paths.reach import check_copy, check_reach

from . import memory


def of(swap) -> Descriptors:
    return Descriptors.of(*swap.descriptors)


@pytest.mark.parametrize("to_device", [True, False])
def test_pinned_and_device_memory_is_reached(accelerator, to_device):
    swap = memory.swap(accelerator, [64] * 5, to_device=to_device)
    pieces = of(swap)
    check_reach(accelerator, pieces)
    assert check_copy(accelerator, pieces) is to_device


@pytest.mark.parametrize(("to_device", "side"), [(True, "source"), (False, "target")])
def test_pageable_memory_is_for_the_copy_engine_alone(accelerator, to_device, side):
    swap = memory.swap(accelerator, [64] * 5, to_device=to_device, pinned=False)
    pieces = of(swap)
    with pytest.raises(
        ValueError, match=f"descriptor 0: its {side}, 64 bytes at 0x.* pageable host memory"
    ):
        check_reach(accelerator, pieces)
    assert check_copy(accelerator, pieces) is to_device


def test_from_device_to_device_is_no_upload(accelerator):
    one, other = (memory.swap(accelerator, [64] * 3) for _ in range(2))
    pieces = Descriptors.of(one.dst_addrs, other.dst_addrs, one.sizes)
    check_reach(accelerator, pieces)
    assert check_copy(accelerator, pieces) is False


@pytest.mark.parametrize("pinned", [True, False])
def test_the_copy_engine_needs_the_device_on_one_side(accelerator, pinned):
    swap = memory.swap(accelerator, [64] * 3, pinned=pinned)
    held = torch.zeros(1024, dtype=torch.uint8, pin_memory=pinned)
    pieces = of(swap)
    pieces.targets[2] = held.data_ptr()
    with pytest.raises(ValueError, match=r"descriptor 2: its target, .* is not in device memory"):
        check_copy(accelerator, pieces)


@pytest.mark.parametrize("check", [check_reach, check_copy])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_piece_past_the_end_of_its_memory_is_named(accelerator, check, side):
    swap = memory.swap(accelerator, [64] * 5)
    pieces = of(swap)
    addresses = pieces.sources if side == "source" else pieces.targets
    holding = accelerator.memory_at(int(addresses[3]))
    addresses[3] = holding.start + holding.nbytes - 56
    with pytest.raises(ValueError, match=f"descriptor 3: its {side}, .* past the end"):
        check(accelerator, pieces)


@dataclass
class Memory:
    """A made-up map of memory ranges, which counts the look-ups."""

    ranges: list[MemoryRange]
    look_ups: list[int] = field(default_factory=list)

    def memory_at(self, address):
        self.look_ups.append(address)
        inside = [r for r in self.ranges if r.start <= address < r.start + r.nbytes]
        return inside[0] if inside else None


MADE_UP = [
    MemoryRange("pinned", 1000, 100),
    MemoryRange("pinned", 1100, 100),
    MemoryRange("device", 5000, 1000),
    MemoryRange("device", 7000, 1000),
]


def made_up(sources, targets, sizes) -> Descriptors:
    return Descriptors(*(np.array(column, dtype=np.int64) for column in (sources, targets, sizes)))


def test_an_allocation_is_looked_up_once():
    accelerator = Memory(MADE_UP)
    pieces = made_up([1096, 1000, 1100, 1008], [5000, 7992, 5992, 7000], [4, 8, 8, 8])
    check_reach(accelerator, pieces)
    assert accelerator.look_ups == [1000, 1100, 5000, 7000]


def test_of_several_the_first_in_the_list_is_named():
    pieces = made_up([1000, 3000, 2000, 1008], [5000, 5008, 5016, 5024], [8] * 4)
    with pytest.raises(ValueError, match="descriptor 1: its source, 8 bytes at 0xbb8, is in page"):
        check_reach(Memory(MADE_UP), pieces)


@pytest.mark.parametrize("check", [check_reach, check_copy])
def test_two_allocations_side_by_side_are_two(check):
    pieces = made_up([1000, 1096], [5000, 5008], [8, 8])
    with pytest.raises(ValueError, match="descriptor 1: its source, 8 bytes at 0x448, runs past"):
        check(Memory(MADE_UP), pieces)


def test_a_piece_of_no_bytes_may_lie_anywhere():
    pieces = made_up([0, 1000, 9999], [0, 5000, 9999], [0, 8, 0])
    accelerator = Memory(MADE_UP)
    check_reach(accelerator, pieces)
    assert accelerator.look_ups == [1000, 5000]
    assert check_copy(Memory(MADE_UP), pieces) is True


def test_one_piece_from_the_device_is_enough_to_be_no_upload():
    pieces = made_up([1000, 5000], [5008, 1008], [8, 8])
    assert check_copy(Memory(MADE_UP), pieces) is False


def test_no_pieces_need_no_look_up():
    accelerator = Memory([])
    check_reach(accelerator, made_up([], [], []))
    assert accelerator.look_ups == []
