"""Numbers chosen once, on somebody's GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """When a kernel copies instead of the DMA engine, and how."""

    num_programs: int
    threshold_bytes: int
    """From pieces of this size on the DMA engine copies."""
    min_n: int
    """So does it a list of fewer pieces."""
    bytes_per_chunk: int
    """What a program moves at a time; of smaller pieces the next power of two."""


NUM_SMS = 12
"""Programs of upstream's kernel: so many multiprocessors are busy with it."""
THRESHOLD_BYTES = 28 * 1024
"""Bytes of a page from which on upstream leaves all copies to the DMA engine."""
MIN_N = 16
"""Pieces from which on upstream launches its kernel."""
UPSTREAM = Preset(NUM_SMS, THRESHOLD_BYTES, MIN_N, bytes_per_chunk=8192)
"""As vLLM has them (#42212), chosen on an H100."""
