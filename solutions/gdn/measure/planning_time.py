"""How long the host takes to plan the chunk tables of a step."""

from __future__ import annotations

import statistics
import time

import numpy as np

from ..host_tables import plan_chunk_tables


def planning_us(num_seqs: int, longest: int = 128, runs: int = 101) -> float:
    """Microseconds for both tables of `num_seqs` sequences of 0 to `longest` tokens: the median."""
    lengths = np.random.default_rng(0).integers(0, longest + 1, num_seqs)
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        plan_chunk_tables(cu_seqlens)
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1e6
