"""How many bytes, in the fewest letters."""

from __future__ import annotations

UNITS = ("B", "KiB", "MiB", "GiB")


def short_size(nbytes: int) -> str:
    """`640 B`, `4 KiB`, `1.5 MiB`."""
    power = min(max(0, nbytes.bit_length() - 1) // 10, len(UNITS) - 1)
    return f"{nbytes / 1024**power:.4g} {UNITS[power]}"
