"""Measuring a grid: the copies and their order, with a fake clock."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

import debubble
from solutions.offload.measure import grid
from solutions.offload.measure.grid import (
    CopiedMemory,
    CopyTimes,
    Grid,
    fair_orders,
    measure_cells,
    measure_grid,
)

SIZES, COUNTS = (64, 128), (1, 4, 16)
MEMORY = 128 * 16


class Clock:
    """A stand-in for a clock: it runs the call, and returns a time that the test has chosen."""

    def __init__(self, wall_us=lambda call: 1.0):
        self.calls, self.copied = [], []
        self._wall_us = wall_us

    def wall(self, write, copy):
        write()
        copy()
        call = ("wall", *self.copied[-1])
        self.calls.append(call)
        wall_us = self._wall_us(call)
        return wall_us, wall_us / 2, wall_us / 8

    def device(self, write, copy, host_us):
        write()
        copy()
        self.calls.append(("device", *self.copied[-1]))
        return host_us / 2


class Path:
    """A stand-in for a path that copies nothing: it notes the descriptors of every call, and their
    strides."""

    def __init__(self, name, copied):
        self.name, self.copied, self.tables, self.strides = name, copied, [], []

    def __call__(self, src, dst, sizes):
        self.tables.append(torch.stack([src, dst, sizes]))
        self.strides.append([column.stride() for column in (src, dst, sizes)])
        self.copied.append((self.name, int(sizes[0]), len(sizes)))


@pytest.fixture
def memory(accelerator):
    return CopiedMemory(accelerator, MEMORY)


@pytest.fixture
def one_wall(monkeypatch):
    """Makes a grid's round measure each copy once by the host's clock, as it does on the device."""
    monkeypatch.setattr(grid, "WALLS", 1)


def measured(memory, clock, *names, rounds=3, advance=lambda: None):
    paths = {name: Path(name, clock.copied) for name in names}
    return measure_cells(memory, clock, paths, SIZES, COUNTS, rounds, advance), paths


def test_each_cell_has_the_times_of_its_own_copies(memory):
    clock = Clock(lambda call: {"a": 1000.0, "b": 2000.0}[call[1]] + call[2] + call[3])
    result, _ = measured(memory, clock, "a", "b")
    assert (result.sizes, result.counts) == (SIZES, COUNTS)
    for name, base in (("a", 1000.0), ("b", 2000.0)):
        walls = [[base + nbytes + count for count in COUNTS] for nbytes in SIZES]
        assert result.rows(name, "wall_us") == walls
        assert result.rows(name, "host_us") == [[wall / 2 for wall in row] for row in walls]
        assert result.rows(name, "device_us") == [[wall / 4 for wall in row] for row in walls]


@pytest.mark.usefixtures("one_wall")
def test_a_time_is_the_median_of_its_rounds_and_the_first_call_counts_for_nothing(memory):
    spent = iter([9e9, 3.0, 1.0, 2.0, 100.0, 2.5] * len(SIZES) * len(COUNTS))
    result, _ = measured(memory, Clock(lambda call: next(spent)), "a", rounds=5)
    assert result.times["a"][0][0] == CopyTimes(
        device_us=2.5 / 4, wall_us=2.5, host_us=2.5 / 2, event_us=2.5 / 8
    )


@pytest.mark.usefixtures("one_wall")
def test_paths_take_turns_and_so_does_who_comes_first(memory):
    clock = Clock()
    measured(memory, clock, "a", "b", "c")
    of_first_cell = [call for call in clock.calls if call[2:] == (SIZES[0], COUNTS[0])]
    assert [call[:2] for call in of_first_cell[:3]] == [("wall", name) for name in "abc"]
    turns = [name for kind, name, *_ in of_first_cell[3:] if kind == "wall"]
    orders = {"".join(turns[first : first + 3]) for first in range(0, len(turns), 3)}
    assert {"".join(sorted(order)) for order in orders} == {"abc"}
    assert len(orders) > 1, "a copy that follows one of the same kind is faster"


@pytest.mark.parametrize("number", range(1, 10))
def test_everybody_follows_everybody_else_equally_often(number):
    """Each path is measured directly after each other path the same number of times. (In random
    orders of eight paths one path came after DMA batches in 5 turns of 15.)"""
    names = [f"path {i}" for i in range(number)]
    orders = fair_orders(names)
    assert all(sorted(order) == names for order in orders)
    followed = Counter(pair for order in orders for pair in pairwise(order))
    assert len(followed) == number * (number - 1) and len(set(followed.values())) <= 1
    assert len(set(Counter(order[0] for order in orders).values())) == 1


@pytest.mark.usefixtures("one_wall")
def test_all_paths_of_a_round_copy_the_same_blocks_and_rounds_copy_others(memory):
    _, paths = measured(memory, Clock(), "a", "b")
    calls_a_cell = 1 + 2 * 3
    for cell in range(len(SIZES) * len(COUNTS)):
        part = slice(cell * calls_a_cell + 1, (cell + 1) * calls_a_cell)
        a, b = ([table.tolist() for table in paths[name].tables[part]] for name in "ab")
        assert a == b
        assert a[0::2] == a[1::2], "wall and device of a round"
        if COUNTS[cell % len(COUNTS)] == 4:
            assert all(one != other for one, other in pairwise(a[::2]))


def test_the_clock_is_asked_more_often_than_the_device(memory):
    clock = Clock()
    measured(memory, clock, "a", rounds=2)
    kinds = [kind for kind, *cell in clock.calls if cell == ["a", SIZES[0], COUNTS[0]]]
    assert kinds == ["wall", *["wall", "device"] * 2, *["wall"] * (2 * (grid.WALLS - 1))]


def test_advance_is_called_once_a_cell(memory):
    done = []
    measured(memory, Clock(), "a", advance=lambda: done.append(None))
    assert len(done) == len(SIZES) * len(COUNTS)


def test_each_path_gets_lists_as_a_pool_has_them(memory):
    _, paths = measured(memory, Clock(), "a", "b")
    strides = {one for path in paths.values() for call in path.strides for one in call}
    assert strides == {(1,)}


@pytest.mark.parametrize(("nbytes", "count"), [(64, 1), (64, 32), (128, 5), (8, 100)])
def test_blocks_lie_apart_in_memory_that_a_kernel_may_read(accelerator, memory, nbytes, count):
    assert memory.host.is_pinned() == accelerator.pin_memory
    table = memory.descriptors(nbytes, count)
    assert table.dtype == torch.int64 and table.shape == (3, count)
    src, dst, sizes = table.numpy()
    assert (sizes == nbytes).all()
    for addresses, tensor in ((src, memory.host), (dst, memory.device)):
        offsets = addresses - tensor.data_ptr()
        assert (offsets % nbytes == 0).all()
        assert offsets.min() >= 0 and offsets.max() + nbytes <= MEMORY
        assert len(np.unique(offsets)) == count


def test_blocks_are_in_random_places_and_each_time_in_others(memory):
    tables = [memory.descriptors(8, 64) for _ in range(2)]
    assert tables[0].tolist() != tables[1].tolist()
    src, dst, _ = tables[0].numpy()
    assert (np.diff(src) != 8).any() and (np.diff(dst) != 8).any()
    assert (src - src.min()).tolist() != (dst - dst.min()).tolist()


def test_memory_is_large_if_there_is_enough_and_holds_the_largest_copy_if_not(
    accelerator, monkeypatch
):
    """A grid's memory has the wanted size if there is enough memory, otherwise a half, a quarter
    and so on, but at least the largest copy's size. RuntimeError if not even that is free. (The
    test allows 10,000 bytes at once.)"""
    wanted, there = [], 10_000
    monkeypatch.setattr(grid, "MEMORY", 64_000)

    def make(self, accelerator, nbytes):
        wanted.append(nbytes)
        if nbytes > there:
            raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(CopiedMemory, "__init__", make)
    CopiedMemory.for_grid(accelerator, SIZES, COUNTS)
    assert wanted == [64_000, 32_000, 16_000, 8_000]
    wanted.clear()
    there = 1_000_000
    CopiedMemory.for_grid(accelerator, SIZES, (1, 1000))
    assert wanted == [128 * 1000], "the largest copy is larger than that"
    wanted.clear()
    there = 7000
    with pytest.raises(RuntimeError, match="of 64 pieces of 128 bytes needs 8192 bytes of pinned"):
        CopiedMemory.for_grid(accelerator, SIZES, (64,))
    assert wanted == [64_000, 32_000, 16_000, 8192]


@pytest.mark.sim
def test_sim_is_refused_in_one_sentence(accelerator):
    with pytest.raises(RuntimeError) as refused:
        measure_grid(accelerator, {"a": Path("a", [])}, SIZES, COUNTS)
    assert str(refused.value) == (
        "copies are measured on a real GPU, and this is sim, modelled on NVIDIA H200"
    )


def test_rows_are_of_one_kind():
    cell = CopyTimes(device_us=1.0, wall_us=3.0, host_us=2.0, event_us=4.0)
    result = Grid((8,), (1, 2), {"a": [[cell, cell]]})
    assert result.rows("a", "device_us") == [[1.0, 1.0]]
    assert result.rows("a", "wall_us") == [[3.0, 3.0]]
    assert result.rows("a", "event_us") == [[4.0, 4.0]]


@pytest.mark.gpu
def test_on_a_gpu_a_copy_has_all_its_times(monkeypatch):
    """All four times of a copy on a GPU are positive. Their order isn't checked, since clocks are
    unreliable on a machine with other work."""
    monkeypatch.setattr(grid, "MEMORY", 1 << 28)
    accelerator = debubble.accelerator("cuda")

    def one_large_copy(src, dst, sizes):
        for source, target, nbytes in zip(*(c.tolist() for c in (src, dst, sizes)), strict=True):
            accelerator.copy_bytes(source, target, nbytes)

    result = measure_grid(accelerator, {"a": one_large_copy}, (1 << 16, 1 << 26), (1,), rounds=5)
    assert len(result.times["a"]) == 2
    for (cell,) in result.times["a"]:
        assert min(cell.device_us, cell.host_us, cell.wall_us, cell.event_us) > 0
