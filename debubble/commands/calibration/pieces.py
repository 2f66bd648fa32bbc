"""Measures many small copies: the host's time to request each piece, the copy engine's time to
start it."""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

from debubble.accelerator import Accelerator

KIB = 1024
SIZES = range(4 * KIB, 65 * KIB, 4 * KIB)
PIECES = 256
QUEUED_PIECES, QUEUED_SIZE = 512, 4 * KIB
QUEUE_MS = 10
"""Milliseconds of the sleep before the queued pieces: enough to request all of them before the
first one moves."""
ROUNDS = 15


class TimedPieces:
    """A source of timed uploads of many small pieces, which lie far apart: from `host`, pinned
    uint8 [n], to `device`, uint8 [n].

    The pieces go in one batch if the driver has such a call, and otherwise one by one.
    """

    def __init__(self, accelerator: Accelerator, host: torch.Tensor, device: torch.Tensor) -> None:
        self.accelerator, self.host, self.device = accelerator, host, device
        self.stream = accelerator.stream()
        self._random = np.random.default_rng(0)

    def host_us_by_size(self) -> dict[int, float]:
        """Returns the median host microseconds to request one piece, by the piece's size in bytes.
        Sizes take turns, so that a slow moment of the machine affects all of them."""
        times: dict[int, list[float]] = {size: [] for size in SIZES}
        self._host_us(QUEUED_SIZE)
        for _ in range(ROUNDS):
            for size in SIZES:
                times[size].append(self._host_us(size))
        return {size: statistics.median(rounds) for size, rounds in times.items()}

    def engine_us(self) -> float:
        """Returns the copy engine's microseconds to start one more piece: the time of many queued
        pieces beyond that of one piece with all their bytes, a piece."""
        one = self._duration(1, QUEUED_PIECES * QUEUED_SIZE)
        many = self._duration(QUEUED_PIECES, QUEUED_SIZE)
        return max(0.0, (many - one) / (QUEUED_PIECES - 1))

    def _host_us(self, size: int) -> float:
        pieces = self._apart(PIECES, size)
        torch.cuda.synchronize()
        with self.stream:
            start = time.perf_counter()
            self._load(*pieces)
            return (time.perf_counter() - start) / PIECES * 1e6

    def _duration(self, count: int, size: int) -> float:
        pieces = self._apart(count, size)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        durations = []
        for _ in range(ROUNDS):
            with self.stream:
                self.accelerator.sleep(QUEUE_MS)
                start.record()
                self._load(*pieces)
                end.record()
            self.stream.synchronize()
            durations.append(start.elapsed_time(end) * 1000)
        return statistics.median(durations)

    def _apart(self, count: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns `count` pieces of `size` bytes as source addresses, target addresses and sizes,
        int64 [count], in random order: an engine is faster if each piece follows the last one at
        the same distance."""
        offsets = np.arange(count) * (self.host.numel() // count)
        sources, targets = (
            tensor.data_ptr() + self._random.permutation(offsets)
            for tensor in (self.host, self.device)
        )
        return sources, targets, np.full(count, size)

    def _load(self, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray) -> None:
        if self.accelerator.has_copy_batch:
            self.accelerator.copy_batch(sources, targets, sizes, any_order=True)
            return
        for piece in zip(sources.tolist(), targets.tolist(), sizes.tolist(), strict=True):
            self.accelerator.copy_bytes(*piece)


def cliff(host_us: dict[int, float]) -> int:
    """Returns the size in bytes from which a piece costs the host another time: the split into two
    levels that leaves the smallest squared errors. `host_us` has the microseconds by size, in
    ascending order."""
    sizes, times = list(host_us), list(host_us.values())

    def left_over(at: int) -> float:
        levels = times[:at], times[at:]
        return sum((t - statistics.fmean(level)) ** 2 for level in levels for t in level)

    return sizes[min(range(1, len(sizes)), key=left_over)]
