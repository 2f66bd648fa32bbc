"""Copies of so many pieces of so many bytes each, timed on a GPU by every path in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Protocol

import numpy as np
import torch

from debubble.accelerator import Accelerator, current
from solutions.measure.benchmark import no_garbage

from ..paths.descriptors import _new_descriptor_buffers

Copy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]
"""Queues a copy on the current stream: (source addresses, target addresses, sizes), int64 [N]
each, in pinned memory that is left alone until the copy is done."""
Ways = Callable[[int], Mapping[str, Copy]]
"""Ways of copying, by name, for pieces of so many bytes: what a size decides is decided here, as
where a handler is made, and costs a copy nothing."""
Call = Callable[[], object]
Advance = Callable[[], object]

MEMORY = 1 << 30
"""Bytes to copy from and to: far beyond what a GPU's L2 cache holds."""
ROUNDS = 11
"""How often times on the device are measured; those of the host vary more, and are measured WALLS
times as often."""
WALLS = 3
DESCRIPTOR_SETS = 3
LONGER_LOADS = 4
UNITS = ("B", "KiB", "MiB", "GiB")


@dataclass(frozen=True)
class CopyTimes:
    """How long a copy takes, in four ways: medians, in microseconds."""

    device_us: float
    """From the first piece to the last, all of them submitted before the device gets there."""
    wall_us: float
    """On an idle device, from the call until all has arrived."""
    host_us: float
    """On an idle device, from the call until it returns."""
    event_us: float
    """On an idle device, between two of its own events, one before the call and one behind it:
    submission counts where the device waits for it."""


@dataclass(frozen=True)
class Grid:
    """How long copies take, by path, by the size of their pieces and by the number of them."""

    sizes: Sequence[int]
    """[S] bytes a piece."""
    counts: Sequence[int]
    """[C] pieces of a copy."""
    times: Mapping[str, Sequence[Sequence[CopyTimes]]]
    """By path, [S][C]."""

    def rows(self, path: str, kind: str) -> list[list[float]]:
        """One path's times in microseconds, [S][C]; `kind` names a field of CopyTimes."""
        return [[getattr(cell, kind) for cell in row] for row in self.times[path]]


class Meter(Protocol):
    """Measures one copy in microseconds, each time as `CopyTimes` explains it. It calls `write`,
    which is not measured, and then `copy`: the descriptors of a transfer, too, are written a moment
    before it begins."""

    def wall(self, write: Call, copy: Call) -> tuple[float, float, float]:
        """The copy's (wall_us, host_us, event_us)."""

    def device(self, write: Call, copy: Call, host_us: float) -> float:
        """The copy's device_us; to submit it takes the host about `host_us`."""


def measure_grid(
    accelerator: Accelerator,
    paths: Mapping[str, Copy] | Ways,
    sizes: Sequence[int],
    counts: Sequence[int],
    *,
    rounds: int = ROUNDS,
    advance: Advance = lambda: None,
    dense: Collection[str] = (),
) -> Grid:
    """Times copies by each path for all `sizes`, in bytes a piece, and all `counts` of pieces, on
    a side stream of a GPU that nobody else uses. `rounds` is how often the device's times are
    measured, and `advance` is called after each cell. The paths in `dense` get three lists without
    gaps, the others what a pool hands out.

    RuntimeError on sim, whose clock would only say what it was told, and where the memory for the
    largest copy is missing.
    """
    if accelerator.modelled:
        raise RuntimeError(
            f"copies are measured on a real GPU, and this is {accelerator.description}"
        )
    memory = CopiedMemory.for_grid(accelerator, sizes, counts)
    with no_garbage():
        meter = CudaMeter(accelerator)
        return measure_cells(memory, meter, paths, sizes, counts, rounds, advance, dense)


def measure_cells(
    memory: CopiedMemory,
    meter: Meter,
    paths: Mapping[str, Copy] | Ways,
    sizes: Sequence[int],
    counts: Sequence[int],
    rounds: int,
    advance: Advance,
    dense: Collection[str] = (),
) -> Grid:
    times: dict[str, list[list[CopyTimes]]] = {}
    for row, nbytes in enumerate(sizes):
        ways = paths(nbytes) if callable(paths) else paths
        for path in ways:
            times.setdefault(path, [[] for _ in sizes])
        for count in counts:
            cells = measure_cell(memory, meter, ways, nbytes, count, rounds, dense)
            for path, cell in cells.items():
                times[path][row].append(cell)
            advance()
    return Grid(tuple(sizes), tuple(counts), times)


def measure_cell(
    memory: CopiedMemory,
    meter: Meter,
    paths: Mapping[str, Copy],
    nbytes: int,
    count: int,
    rounds: int,
    dense: Collection[str] = (),
) -> dict[str, CopyTimes]:
    """How long a copy of `count` pieces of `nbytes` bytes takes, by path. The paths take turns, so
    that a slow moment of the machine is one for all of them."""
    sets = [memory.descriptors(nbytes, count) for _ in range(DESCRIPTOR_SETS)]
    lists = {path: _lists(count, path in dense) for path in paths}
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
    """Orders in which everybody comes first equally often, and behind everybody else equally often:
    whoever follows a copy of the same kind is faster."""
    number = len(names)
    # Each step goes another way round the circle of names: to 0, 1, -1, 2, -2, ...
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) for step in range(number)]
    orders = [[names[(start + place) % number] for place in zigzag] for start in range(number)]
    # Of an odd number the steps one way are others than those the other way.
    return orders + [order[::-1] for order in orders] if number % 2 else orders


def _lists(count: int, dense: bool) -> torch.Tensor:
    """A pinned tensor for descriptors, int64 [3, count], dense or as a pool has it. A copy that
    reads it has to end before the next descriptors are written."""
    if dense:
        return torch.empty((3, count), dtype=torch.int64, pin_memory=current().pin_memory)
    return _new_descriptor_buffers(count)


class CopiedMemory:
    """Pinned host memory and device memory of `nbytes` each, cut into blocks anew for each copy."""

    def __init__(self, accelerator: Accelerator, nbytes: int) -> None:
        pin_memory = accelerator.pin_memory
        self.host = torch.empty(nbytes, dtype=torch.int8, pin_memory=pin_memory)
        self.device = torch.empty(nbytes, dtype=torch.int8, device=accelerator.device)
        self._random = np.random.default_rng(0)

    @classmethod
    def for_grid(
        cls, accelerator: Accelerator, sizes: Sequence[int], counts: Sequence[int]
    ) -> CopiedMemory:
        """MEMORY bytes, or fewer where there are not so many, but enough for the largest copy.
        RuntimeError where even those are missing."""
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
        """Source addresses, target addresses and sizes, int64 [3, count], of blocks of `nbytes`
        bytes in random places, none of them twice."""
        blocks = np.stack(
            [self._random.choice(len(self.host) // nbytes, count, replace=False) for _ in range(2)]
        )
        starts = np.array([[self.host.data_ptr()], [self.device.data_ptr()]])
        table = torch.empty(3, count, dtype=torch.int64)
        table[:2] = torch.from_numpy(starts + nbytes * blocks)
        table[2] = nbytes
        return table


class CudaMeter:
    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._stream = accelerator.stream()
        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def wall(self, write: Call, copy: Call) -> tuple[float, float, float]:
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
        """The copy's device_us, behind a kernel that runs for longer than the host needs to submit
        the copy. Where no kernel is long enough, the time behind the longest one."""
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
    """A number of bytes in few letters: `640 B`, `4 KiB`, `1.5 MiB`."""
    power = min(max(0, nbytes.bit_length() - 1) // 10, len(UNITS) - 1)
    return f"{nbytes / 1024**power:.4g} {UNITS[power]}"
