"""Times copies of many numbers and sizes of pieces on a GPU, by every path in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import numpy as np
import torch

from debubble.accelerator import Accelerator
from solutions.measure.benchmark import no_garbage

from ..paths.descriptors import _new_descriptor_buffers

Copy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]
"""A function that queues a copy on the current stream: (source addresses, target addresses, sizes),
int64 [N] each, in pinned memory that stays unchanged until the copy is done."""
Ways = Callable[[int], Mapping[str, Copy]]
"""A function that returns the ways of copying pieces of a size, by name. Whatever depends only on
the size is decided there, as when a handler is made, and costs a copy nothing."""
Call = Callable[[], object]
Advance = Callable[[], object]

MEMORY = 1 << 30
"""Bytes of host memory to copy from, and of device memory to copy to: far more than a GPU's L2
cache holds."""
ROUNDS = 11
"""Default number of measurements of a copy on the device. Times on the host vary more and are
measured WALLS times as often."""
WALLS = 3
DESCRIPTOR_SETS = 3
LONGER_LOADS = 4
UNITS = ("B", "KiB", "MiB", "GiB")


@dataclass(frozen=True)
class CopyTimes:
    """Median times of one copy in microseconds, measured in four ways."""

    device_us: float
    """Time on the device from the first piece to the last, if the host has submitted all of them
    before the device begins."""
    wall_us: float
    """Time from the call until all bytes have arrived, on an idle device."""
    host_us: float
    """Time from the call until it returns, on an idle device."""
    event_us: float
    """Time between an event before the call and one after it, on an idle device: includes
    submission as far as the device waits for it."""


@dataclass(frozen=True)
class Grid:
    """Measured times of copies by each path, for each size and number of pieces."""

    sizes: Sequence[int]
    """[S] bytes per piece for which times were measured."""
    counts: Sequence[int]
    """[C] numbers of pieces per copy for which times were measured."""
    times: Mapping[str, Sequence[Sequence[CopyTimes]]]
    """[S][C] times of one copy by each path, by the path's name."""

    def rows(self, path: str, kind: str) -> list[list[float]]:
        """Returns one path's times in microseconds, [S][C]; `kind` names a field of CopyTimes."""
        return [[getattr(cell, kind) for cell in row] for row in self.times[path]]


def measure_grid(
    accelerator: Accelerator,
    paths: Mapping[str, Copy] | Ways,
    sizes: Sequence[int],
    counts: Sequence[int],
    *,
    rounds: int = ROUNDS,
    advance: Advance = lambda: None,
) -> Grid:
    """Returns the times of copies by each path, for all `sizes` (bytes per piece) and all `counts`
    (pieces per copy), on a side stream of a GPU that no other process uses.

    `rounds` is the number of measurements on the device, and `advance` is called after each cell.
    Raises RuntimeError on sim, whose clock only returns what the model says, and if there is too
    little memory for the largest copy.
    """
    if accelerator.modelled:
        raise RuntimeError(
            f"copies are measured on a real GPU, and this is {accelerator.description}"
        )
    memory = CopiedMemory.for_grid(accelerator, sizes, counts)
    with no_garbage():
        meter = CudaMeter(accelerator)
        return measure_cells(memory, meter, paths, sizes, counts, rounds, advance)


def measure_cells(
    memory: CopiedMemory,
    meter: CudaMeter,
    paths: Mapping[str, Copy] | Ways,
    sizes: Sequence[int],
    counts: Sequence[int],
    rounds: int,
    advance: Advance,
) -> Grid:
    times: dict[str, list[list[CopyTimes]]] = {}
    for row, nbytes in enumerate(sizes):
        ways = paths(nbytes) if callable(paths) else paths
        for path in ways:
            times.setdefault(path, [[] for _ in sizes])
        for count in counts:
            cells = measure_cell(memory, meter, ways, nbytes, count, rounds)
            for path, cell in cells.items():
                times[path][row].append(cell)
            advance()
    return Grid(tuple(sizes), tuple(counts), times)


def measure_cell(
    memory: CopiedMemory,
    meter: CudaMeter,
    paths: Mapping[str, Copy],
    nbytes: int,
    count: int,
    rounds: int,
) -> dict[str, CopyTimes]:
    """Returns the times of a copy of `count` pieces of `nbytes` bytes, by path. The paths take
    turns, so that a slow moment of the machine affects all of them."""
    sets = [memory.descriptors(nbytes, count) for _ in range(DESCRIPTOR_SETS)]
    lists = {path: _new_descriptor_buffers(count) for path in paths}
    copies = {path: partial(copy, *lists[path]) for path, copy in paths.items()}
    for path, copy in copies.items():
        meter.wall(partial(lists[path].copy_, sets[0]), copy)  # compiles
    walls: dict[str, list[tuple[float, float, float]]] = {path: [] for path in paths}
    devices: dict[str, list[float]] = {path: [] for path in paths}
    orders = cycle(fair_orders(list(paths)))
    for turn, order in zip(range(WALLS * rounds), orders, strict=False):
        for path in order:
            write = partial(lists[path].copy_, sets[turn % len(sets)])
            walls[path].append(meter.wall(write, copies[path]))
            if turn < rounds:
                devices[path].append(meter.device(write, copies[path], walls[path][-1][1]))
    return {path: _medians(walls[path], devices[path]) for path in paths}


def fair_orders(names: Sequence[str]) -> list[list[str]]:
    """Returns orders in which every name comes first equally often, and directly after every other
    name equally often: a copy that follows one of its own kind is faster."""
    number = len(names)
    # Each order goes around the circle of names in steps to 0, 1, -1, 2, -2, ...
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) for step in range(number)]
    orders = [[names[(start + place) % number] for place in zigzag] for start in range(number)]
    # With an odd number of names the steps in one direction differ from those in the other.
    return orders + [order[::-1] for order in orders] if number % 2 else orders


class CopiedMemory:
    """Pinned host memory and device memory of `nbytes` bytes each, to copy between. Each copy cuts
    them into new blocks."""

    def __init__(self, accelerator: Accelerator, nbytes: int) -> None:
        pin_memory = accelerator.pin_memory
        self.host = torch.empty(nbytes, dtype=torch.int8, pin_memory=pin_memory)
        self.device = torch.empty(nbytes, dtype=torch.int8, device=accelerator.device)
        self._random = np.random.default_rng(0)

    @classmethod
    def for_grid(
        cls, accelerator: Accelerator, sizes: Sequence[int], counts: Sequence[int]
    ) -> CopiedMemory:
        """Returns a CopiedMemory of MEMORY bytes, or of fewer if there is less memory, but large
        enough for the largest copy of the grid. Raises RuntimeError if there isn't even that
        much."""
        largest = max(sizes) * max(counts)
        nbytes = max(MEMORY, largest)
        while True:
            try:
                return cls(accelerator, nbytes)
            except RuntimeError as error:
                if nbytes == largest:
                    raise RuntimeError(
                        f"a copy of {max(counts)} pieces of {max(sizes)} bytes needs {largest} "
                        "bytes of pinned memory and as many on the device: measure smaller ones"
                    ) from error
                nbytes = max(largest, nbytes // 2)

    def descriptors(self, nbytes: int, count: int) -> torch.Tensor:
        """Returns source addresses, target addresses and sizes, int64 [3, count], of a copy of
        `count` blocks of `nbytes` bytes. The blocks are at random places, none of them used
        twice."""
        blocks = np.stack(
            [self._random.choice(len(self.host) // nbytes, count, replace=False) for _ in range(2)]
        )
        starts = np.array([[self.host.data_ptr()], [self.device.data_ptr()]])
        table = torch.empty(3, count, dtype=torch.int64)
        table[:2] = torch.from_numpy(starts + nbytes * blocks)
        table[2] = nbytes
        return table


class CudaMeter:
    """A meter of one copy's times in microseconds, as `CopyTimes` defines them. It calls `write`
    first, which is not measured, and then `copy`, since the descriptors of a real transfer are also
    written just before it."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._stream = accelerator.stream()
        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def wall(self, write: Call, copy: Call) -> tuple[float, float, float]:
        """Returns the copy's (wall_us, host_us, event_us)."""
        self._stream.synchronize()
        write()
        with self._stream:
            self._first.record()
            started = time.perf_counter()
            copy()
            submitted = time.perf_counter()
            self._last.record()
        self._stream.synchronize()
        arrived = time.perf_counter()
        event_us = self._first.elapsed_time(self._last) * 1e3
        return (arrived - started) * 1e6, (submitted - started) * 1e6, event_us

    def device(self, write: Call, copy: Call, host_us: float) -> float:
        """Returns the copy's device_us, measured after a kernel that runs longer than the host
        needs to submit the copy. If no kernel is long enough, it is the time after the longest
        one."""
        load_ms = 0.3 + 1.5e-3 * host_us
        for _ in range(1 + LONGER_LOADS):
            self._stream.synchronize()
            write()
            with self._stream:
                self._accelerator.sleep(load_ms)
                self._first.record()
                copy()
                is_behind = not self._first.query()
                self._last.record()
            self._stream.synchronize()
            if is_behind:
                break
            load_ms *= 2
        return self._first.elapsed_time(self._last) * 1e3


def _medians(walls: Sequence[tuple[float, float, float]], devices: Sequence[float]) -> CopyTimes:
    wall_us, host_us, event_us = (statistics.median(column) for column in zip(*walls, strict=True))
    return CopyTimes(statistics.median(devices), wall_us, host_us, event_us)


def short_size(nbytes: int) -> str:
    """Returns a number of bytes as a short text: `640 B`, `4 KiB`, `1.5 MiB`."""
    power = min(max(0, nbytes.bit_length() - 1) // 10, len(UNITS) - 1)
    return f"{nbytes / 1024**power:.4g} {UNITS[power]}"
