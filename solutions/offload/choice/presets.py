"""Constants that were chosen once, on one GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """Constants that say when a kernel copies instead of the DMA engine, and with which
    settings."""

    num_programs: int
    threshold_bytes: int
    """Bytes of a page from which on the DMA engine copies."""
    min_n: int
    """Number of pieces in a list below which the DMA engine copies."""
    bytes_per_chunk: int
    """Bytes that a program of the kernel moves at a time. Smaller pages take the next power of
    two."""


NUM_SMS = 12
"""Number of programs of upstream's kernel, and so of the multiprocessors that it keeps busy."""
THRESHOLD_BYTES = 28 * 1024
"""Bytes of a page from which on upstream uses the DMA engine for all copies."""
MIN_N = 16
"""Number of pieces from which on upstream launches its kernel."""
UPSTREAM = Preset(NUM_SMS, THRESHOLD_BYTES, MIN_N, bytes_per_chunk=8192)
"""The constants in vLLM (#42212), chosen on an H100."""
